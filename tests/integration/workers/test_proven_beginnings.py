"""A control worker acknowledges a question by the key that its beginning has left in Redis."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from hexgen_celery.keys import Keys
from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import LocalWorkers, deployment_settings, pool_of
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

PATIENCE = 60.0


@pytest.fixture
def workers(llm: FakeLlm, redis_server: EmbeddedRedis, tmp_path: Path) -> Iterator[LocalWorkers]:
    settings = deployment_settings(redis_server, "proven", tmp_path, pool_of(llm.url))
    with LocalWorkers(settings, tmp_path) as running:
        yield running.start()


def test_the_acknowledgement_of_a_question_names_its_workflow(workers: LocalWorkers) -> None:
    prefix = workers.settings.broker.prefix
    with redis.Redis.from_url(workers.url) as client, client.monitor() as commands:
        asked = workers.chat("hello there")
        assert asked.get(timeout=PATIENCE)["status"] == "answered"
        proof = f" {Keys(prefix).workflow(asked.id)}"
        until = time.monotonic() + PATIENCE
        heard = next(
            each["command"]
            for each in commands.listen()
            if _acknowledges(each["command"], Keys(prefix), proof) or time.monotonic() > until
        )
    assert _acknowledges(heard, Keys(prefix), proof)


def _acknowledges(command: str, keys: Keys, proof: str) -> bool:
    """Whether it is a queue script that was given that proof."""
    return command.startswith("EVAL") and f" {keys.queue_root} " in command and proof in command
