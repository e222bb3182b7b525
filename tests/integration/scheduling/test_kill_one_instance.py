"""A server under load is killed and comes back, with real workers, HTTP and emulated servers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.result import AsyncResult

from tests.benchmarks.emulated_servers import SPEED_VARIABLE, EmulatedServers
from tests.integration.workers.local_workers import LocalWorkers, deployment_settings
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

PROFILES = {"a1": "a100-80g-x4-llama-3.1-70b", "b1": "l40s-x4-llama-3.1-70b"}
SPEED = 10.0
PATIENCE = 90.0


@pytest.fixture
def servers() -> Iterator[EmulatedServers]:
    running = EmulatedServers(PROFILES, SPEED)
    for name in PROFILES:
        running.start(name)
    yield running
    running.stop()


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
    servers: EmulatedServers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SPEED_VARIABLE, str(SPEED))
    settings = deployment_settings(redis_server, "kill-one", tmp_path, *servers.pools())
    with LocalWorkers(settings, tmp_path) as workers:
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
