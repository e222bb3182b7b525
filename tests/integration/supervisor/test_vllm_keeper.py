"""`hexgen vllm serve`: ready by a completion, restarted on its port, ended with all it started."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hexgen_celery.api import Client, Question
from hexgen_celery.cli.local_cluster import LocalCluster
from hexgen_celery.llm import ChatRequest, LlmClient
from hexgen_celery.settings import load_settings
from tests.integration.supervisor.fake_vllm import write_config, write_program
from workers.embedded_redis import free_port

pytestmark = pytest.mark.integration
HEXGEN = [sys.executable, "-c", "import sys; from hexgen_celery.cli import main; sys.exit(main())"]
SECONDS = 60.0


class Keeper:
    """A running `hexgen vllm serve one`."""

    def __init__(self, home: Path, config: Path) -> None:
        self.log = home / "up" / "logs" / "vllm-one.log"
        environment = {**os.environ, "HEXGEN_BROKER__URL": "redis://:secret@127.0.0.1:1/0"}
        self.process = subprocess.Popen(
            [*HEXGEN, "--config", str(config), "vllm", "serve", "one"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        self._output = self.process.stdout

    def ready(self) -> str:
        """Its next line: the URL of a server that has completed a request."""
        return self._output.readline().strip()

    def engines(self) -> list[int]:
        """Process ids of the engines that its servers have started."""
        return [int(pid) for pid in re.findall(r"^engine (\d+)", self.log.read_text(), re.M)]

    def kill_server(self) -> None:
        """Kill the server (the engine's parent) as the kernel would."""
        os.kill(_parent(self.engines()[-1]), signal.SIGKILL)


@pytest.fixture
def port() -> int:
    """A port that is free just now."""
    return free_port()


@contextmanager
def _kept(home: Path, config: Path) -> Iterator[Keeper]:
    keeper = Keeper(home, config)
    try:
        yield keeper
    finally:
        if keeper.process.poll() is None:
            keeper.process.terminate()
        keeper.process.communicate(timeout=SECONDS)


def test_a_dead_server_comes_back_on_its_port_and_leaves_no_engine(
    tmp_path: Path, port: int
) -> None:
    config = write_config(tmp_path, write_program(tmp_path / "vllm"), port)
    with _kept(tmp_path, config) as keeper:
        url = keeper.ready()
        assert url == f"http://127.0.0.1:{port}"
        keeper.kill_server()
        assert keeper.ready() == url
        with LlmClient(url) as client:
            assert client.complete(ChatRequest("m", (("user", "hello"),), max_tokens=4)).text
        first, second = keeper.engines()
        _until(lambda: not _runs(first))
        keeper.process.terminate()
        _, errors = keeper.process.communicate(timeout=SECONDS)
        assert keeper.process.returncode == 0, errors
        _until(lambda: not _runs(second))
        assert "secret" not in errors
        assert "[]" in keeper.log.read_text(), "no variable of ours reaches the server"


def test_nothing_outlives_a_killed_keeper(tmp_path: Path, port: int) -> None:
    config = write_config(tmp_path, write_program(tmp_path / "vllm"), port)
    with _kept(tmp_path, config) as keeper:
        keeper.ready()
        engine = keeper.engines()[0]
        server = _parent(engine)
        keeper.process.kill()
        _until(lambda: not _runs(engine) and not _runs(server))


def test_a_server_that_cannot_start_is_not_tried_for_ever(tmp_path: Path, port: int) -> None:
    config = write_config(tmp_path, write_program(tmp_path / "vllm"), port, model="org/broken")
    with _kept(tmp_path, config) as keeper:
        _, errors = keeper.process.communicate(timeout=SECONDS)
    assert keeper.process.returncode == 2
    complaint = errors.strip().splitlines()[-1]
    assert complaint.startswith("error: vLLM ended with status 1, 2 times in a row")
    assert "CUDA out of memory" in complaint
    assert "lower max_model_len" in complaint


def test_a_server_that_breaks_its_pools_promise_is_refused(tmp_path: Path, port: int) -> None:
    program = write_program(tmp_path / "vllm", served_context="1024")
    config = write_config(tmp_path, program, port)
    with _kept(tmp_path, config) as keeper:
        _, errors = keeper.process.communicate(timeout=SECONDS)
    assert keeper.process.returncode == 2
    assert "promises a context of 4096 tokens, the server has 1024" in errors


def test_a_taken_port_is_a_clear_error(tmp_path: Path, port: int) -> None:
    config = write_config(tmp_path, write_program(tmp_path / "vllm"), port)
    with socket.create_server(("127.0.0.1", port)), _kept(tmp_path, config) as keeper:
        _, errors = keeper.process.communicate(timeout=SECONDS)
    assert keeper.process.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in errors


def test_dry_run_needs_neither_vllm_nor_the_port(tmp_path: Path, port: int) -> None:
    config = write_config(tmp_path, tmp_path / "absent", port)
    done = subprocess.run(
        [*HEXGEN, "--config", str(config), "vllm", "serve", "one", "--dry-run"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / 'absent'} serve org/fine --served-model-name m" in done.stdout
    assert f"--port {port}" in done.stdout


def test_up_serves_it_and_questions_reach_it(tmp_path: Path) -> None:
    """Without a port of its own; the whole cluster ends and leaves nothing."""
    config = write_config(tmp_path, write_program(tmp_path / "vllm"), 0)
    cluster = LocalCluster(config, tmp_path / "up")
    cluster.start()
    try:
        state = cluster.wait_ready(120.0)
        assert [(each.engine, each.emulated) for each in state.instances] == [("vllm", False)]
        with Client(load_settings(config)) as client:
            question = Question("say something", "", 60, workflow="chat")
            answer = client.ask_many([question])[0].result(timeout=SECONDS)
            assert answer.detail["text"]
    finally:
        cluster.stop()
    log = (tmp_path / "up" / "logs" / "vllm-one.log").read_text()
    engines = [int(pid) for pid in re.findall(r"^engine (\d+)", log, re.M)]
    assert engines
    _until(lambda: not any(map(_runs, engines)))


def _until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.02)


def _status(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _parent(pid: int) -> int:
    return int(_status(pid)[1])


def _runs(pid: int) -> bool:
    try:
        return _status(pid)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
