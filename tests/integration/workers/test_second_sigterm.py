"""A worker that is told twice to stop: the second SIGTERM ends its period of grace."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import LocalWorkers, deployment_settings, pool_of
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

GRACE_SECONDS = 600.0
PATIENCE = 60.0
HELD = 3


def _wait_logged(workers: LocalWorkers, name: str, words: str) -> None:
    until = time.monotonic() + PATIENCE
    while words not in workers.log(name):
        assert time.monotonic() < until, f"{name} never logged {words!r}"
        time.sleep(0.1)


def test_a_second_sigterm_hands_held_requests_back_at_once(
    redis_server: EmbeddedRedis, tmp_path: Path
) -> None:
    """The grace outlasts the test's patience by far: only the second signal can end it."""
    with FakeLlm() as server:
        settings = deployment_settings(redis_server, "twice", tmp_path, pool_of(server.url))
        patient = settings.workers.model_copy(update={"shutdown_grace_seconds": GRACE_SECONDS})
        settings = settings.model_copy(update={"workers": patient})
        with LocalWorkers(settings, tmp_path) as workers:
            workers.start()
            server.holding = True
            pending = [workers.chat(f"question {number}") for number in range(HELD)]
            server.wait_open(HELD)
            ending = workers.processes["llm-x1"]

            ending.send_signal(signal.SIGTERM)
            _wait_logged(workers, "llm-x1", "Warm shutdown")
            time.sleep(1.0)
            assert ending.poll() is None
            assert (server.open, server.broken_off) == (HELD, [])

            ending.send_signal(signal.SIGTERM)
            assert ending.wait(PATIENCE) == 0
            server.wait_open(0)
            assert len(server.broken_off) == HELD
            assert "requests handed back" in workers.log("llm-x1")

            server.holding = False
            workers.llm("x1")
            answers = [question.get(timeout=PATIENCE)["text"] for question in pending]
            assert answers == [f"question {number}" for number in range(HELD)]
            asked = [request["messages"][-1]["content"] for request in server.requests]
            assert [asked.count(answer) for answer in answers] == [2] * HELD
