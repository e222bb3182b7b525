"""An LLM server goes away: its worker takes nothing more, and the others answer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hexgen_celery.instances import InstanceDirectory
from hexgen_celery.keys import Keys
from hexgen_celery.redis_client import connect
from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import (
    LocalWorkers,
    deployment_settings,
    pool_of,
)
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

PATIENCE = 90.0


def _wait_ready(workers: LocalWorkers, expected: dict[str, bool]) -> None:
    with connect(workers.settings) as client:
        directory = InstanceDirectory(client, Keys(workers.settings.broker.prefix))
        until = time.monotonic() + 30
        while (found := {r.name: r.ready for r in directory.snapshot()[1]}) != expected:
            assert time.monotonic() < until, found
            time.sleep(0.1)


def test_questions_survive_a_server_that_ends_and_use_it_when_it_is_back(
    redis_server: EmbeddedRedis, tmp_path: Path
) -> None:
    with FakeLlm(seconds=0.02) as lasting:
        ending = FakeLlm(seconds=0.02)
        with ending:
            pool = pool_of(lasting.url, ending.url, concurrency=4)
            settings = deployment_settings(redis_server, "outage", tmp_path, pool)
            workers = LocalWorkers(settings, tmp_path)
            workers.start()
        with workers:
            pending = [workers.chat(f"question {number}") for number in range(60)]
            answers = [waiting.get(timeout=PATIENCE)["text"] for waiting in pending]
            assert answers == [f"question {number}" for number in range(60)]
            _wait_ready(workers, {"x1": True, "x2": False})
            back = FakeLlm(seconds=0.02)
            back.port = ending.port
            with back:
                _wait_ready(workers, {"x1": True, "x2": True})
                pending = [workers.chat(f"again {number}") for number in range(60)]
                for waiting in pending:
                    waiting.get(timeout=PATIENCE)
                assert back.requests


def test_what_a_wedged_engine_holds_is_answered_elsewhere(
    redis_server: EmbeddedRedis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It still lists its models, so that only its silence tells."""
    with FakeLlm() as wedged, FakeLlm() as healthy:
        pool = pool_of(wedged.url, healthy.url, concurrency=4)
        pool = pool.model_copy(update={"max_model_len": 2048})
        settings = deployment_settings(redis_server, "wedged", tmp_path, pool)
        monkeypatch.setenv("HEXGEN_LLM__STALLED_AFTER_SECONDS", "1")
        with LocalWorkers(settings, tmp_path) as workers:
            workers.start()
            _wait_ready(workers, {"x1": True, "x2": True})
            wedged.wedged = True
            pending = [workers.chat(f"question {number}") for number in range(20)]
            answers = [waiting.get(timeout=PATIENCE)["text"] for waiting in pending]
            assert answers == [f"question {number}" for number in range(20)]
            assert wedged.broken_off
            wedged.wedged = False
            _wait_ready(workers, {"x1": True, "x2": True})


def test_a_question_waits_for_the_only_server(redis_server: EmbeddedRedis, tmp_path: Path) -> None:
    with FakeLlm() as server:
        settings = deployment_settings(redis_server, "waiting", tmp_path, pool_of(server.url))
    with LocalWorkers(settings, tmp_path) as workers:
        workers.start()
        _wait_ready(workers, {"x1": False})
        pending = workers.chat("patience")
        time.sleep(1.0)
        assert not pending.ready()
        back = FakeLlm()
        back.port = server.port
        with back:
            assert pending.get(timeout=PATIENCE)["text"] == "patience"


def test_a_question_outlives_the_only_server_that_dies_in_mid_answer(
    redis_server: EmbeddedRedis, tmp_path: Path
) -> None:
    """However lately it was seen to work: its attempts are not spent on a server that is gone."""
    dying = FakeLlm()
    with dying:
        settings = deployment_settings(redis_server, "dying", tmp_path, pool_of(dying.url))
        workers = LocalWorkers(settings, tmp_path)
        workers.start()
        _wait_ready(workers, {"x1": True})
        dying.seconds = 60.0
        pending = workers.chat("a long story")
        dying.wait_open(1)
    with workers:
        time.sleep(4.0)
        assert not pending.ready(), pending.result
        back = FakeLlm()
        back.port = dying.port
        with back:
            assert pending.get(timeout=PATIENCE)["text"] == "a long story"
