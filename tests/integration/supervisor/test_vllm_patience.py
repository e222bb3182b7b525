"""When a vLLM server that says nothing is given up, or killed and started again."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hexgen_celery.core.clock import WallClock
from hexgen_celery.errors import ModelUnavailable
from hexgen_celery.llm import CancelToken, LlmClient
from tests.integration.supervisor.fake_vllm import write_program
from workers.embedded_redis import free_port
from workers.log_rotation import RotatedLog
from workers.managed_process import ProcessSpec, RestartPolicy
from workers.server_probe import ServerProbe
from workers.vllm_server import Patience, VllmNotStarted, VllmServer

pytestmark = pytest.mark.integration
HURRY = Patience(
    ready_seconds=60.0,
    silent_seconds=1.0,
    look_seconds=0.05,
    restart=RestartPolicy(first_seconds=0.1, longest_seconds=0.2),
)


def _server(
    home: Path,
    command: tuple[str, ...],
    url: str,
    probe: Callable[[CancelToken], None],
    patience: Patience = HURRY,
) -> VllmServer:
    spec = ProcessSpec("server", command, dict(os.environ), stop_seconds=2.0)
    return VllmServer(spec, url, RotatedLog(home / "server.log"), probe, patience, WallClock())


@pytest.fixture
def url() -> str:
    """Where the fake server is to listen."""
    return f"http://127.0.0.1:{free_port()}"


@contextmanager
def _running(server: VllmServer) -> Iterator[list[float]]:
    """The moments at which it became ready, growing while it runs."""
    moments: list[float] = []
    thread = threading.Thread(target=server.run, args=(lambda: moments.append(time.monotonic()),))
    thread.start()
    try:
        yield moments
    finally:
        server.stop()
        thread.join(30)


def _fake(home: Path, url: str) -> tuple[str, ...]:
    port = url.rpartition(":")[2]
    program = str(write_program(home / "vllm"))
    options = ("--served-model-name", "m", "--port", port, "--max-model-len", "64")
    return (program, "serve", "org/fine", *options)


def test_a_server_that_falls_silent_is_started_again(tmp_path: Path, url: str) -> None:
    with LlmClient(url) as client:
        server = _server(tmp_path, _fake(tmp_path, url), url, ServerProbe(client, "m", None).probe)
        with _running(server) as moments:
            _until(lambda: len(moments) == 1)
            frozen = server.pid
            assert frozen is not None
            assert server.ready
            os.kill(frozen, signal.SIGSTOP)
            _until(lambda: len(moments) == 2)
            assert server.pid != frozen
    assert server.pid is None


def test_health_is_not_enough(tmp_path: Path, url: str) -> None:
    """A server whose engine is dead answers `/health`, but completes nothing."""
    tried: list[float] = []

    def probe(_cancel: CancelToken) -> None:
        tried.append(time.monotonic())
        if len(tried) < 3:
            raise ModelUnavailable("the engine is dead")

    server = _server(tmp_path, _fake(tmp_path, url), url, probe)
    with _running(server) as moments:
        _until(lambda: len(moments) == 1)
    assert len(tried) == 3


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, url: str) -> None:
    def probe(_cancel: CancelToken) -> None:
        raise AssertionError("nobody listens")

    sleeper = (sys.executable, "-c", "import time; print('loading', flush=True); time.sleep(600)")
    patience = Patience(ready_seconds=1.5, look_seconds=0.05)
    with pytest.raises(VllmNotStarted) as given_up:
        _server(tmp_path, sleeper, url, probe, patience).run()
    assert "not ready after 1.5 s" in given_up.value.message
    assert "loading" in given_up.value.message


def _until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.02)
