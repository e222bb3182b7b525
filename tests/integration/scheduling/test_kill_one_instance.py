"""A server under load is killed and comes back, with real workers, HTTP and emulated servers."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.result import AsyncResult

from hexgen_celery.settings import InstanceSettings, PoolSettings, Settings
from tests.integration.workers.local_workers import LocalWorkers, deployment_settings
from workers import children
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

PROFILES = {"a1": "a100-80g-x4-llama-3.1-70b", "b1": "l40s-x4-llama-3.1-70b"}
PATIENCE = 90.0


class Servers:
    """Emulated servers by name, each on a port that it keeps."""

    def __init__(self) -> None:
        self.ports = {name: _free_port() for name in PROFILES}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        options = ["--profile", PROFILES[name], "--port", str(self.ports[name])]
        options += ["--model", "m", "--speed", "10"]
        command = [sys.executable, "-m", "workers.emulator", *options]
        process = children.spawn(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        self.processes[name] = process

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()


@pytest.fixture
def servers() -> Iterator[Servers]:
    running = Servers()
    for name in PROFILES:
        running.start(name)
    yield running
    for process in running.processes.values():
        children.stop(process)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _settings(redis_server: EmbeddedRedis, directory: Path, servers: Servers) -> Settings:
    pools = tuple(
        PoolSettings(
            name=name,
            gpu="t",
            model="m",
            profile=profile,
            instances=(
                InstanceSettings(
                    name=name, url=f"http://127.0.0.1:{servers.ports[name]}", engine="emulated"
                ),
            ),
        )
        for name, profile in PROFILES.items()
    )
    return deployment_settings(redis_server, "kill-one", directory, *pools)


def _ask(workers: LocalWorkers, count: int) -> list[AsyncResult[Any]]:
    asked = {"role": "user", "content": "a question " * 40}
    return [
        workers.chat("q", slo_seconds=PATIENCE, messages=[asked], max_tokens=150)
        for _ in range(count)
    ]


def _where(pending: list[AsyncResult[Any]]) -> list[str]:
    """Where each was answered; raises for one that was not."""
    answers = [each.get(timeout=PATIENCE) for each in pending]
    return [answer["stages"][-1]["instance"] for answer in answers]


def test_no_question_is_lost_with_a_server_and_it_is_used_when_it_is_back(
    redis_server: EmbeddedRedis,
    tmp_path: Path,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEXGEN_EMULATOR__SPEED", "10")
    with LocalWorkers(_settings(redis_server, tmp_path, servers), tmp_path) as workers:
        workers.start()
        assert "a1" in _where(_ask(workers, 20))
        pending = _ask(workers, 60)
        servers.kill("a1")
        pending += _ask(workers, 20)
        assert len(_where(pending)) == 80
        assert set(_where(_ask(workers, 10))) == {"b1"}
        servers.start("a1")
        until = time.monotonic() + PATIENCE
        while "a1" not in _where(_ask(workers, 5)):
            assert time.monotonic() < until, "the server that is back is not used"
        workers.kill("llm-a1")
        assert len(_where(_ask(workers, 20))) == 20
