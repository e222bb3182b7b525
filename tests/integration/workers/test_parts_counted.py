"""A prompt part that requests share is counted by the server that got it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hexgen_celery.keys import Keys
from hexgen_celery.part_tokens import PartTokenStore
from hexgen_celery.redis_client import connect
from hexgen_celery.workflows.prompt_parts import part_hash
from tests.benchmarks.emulated_servers import EmulatedServers
from tests.integration.workers.local_workers import LocalWorkers, deployment_settings
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

RULES = "Answer in one word. " * 30


@pytest.fixture
def servers() -> Iterator[EmulatedServers]:
    running = EmulatedServers({"a1": "a100-80g-x4-llama-3.1-70b"}, 50.0)
    running.start("a1")
    yield running
    running.stop()


def test_by_its_tokenizer_and_for_its_model(
    redis_server: EmbeddedRedis, tmp_path: Path, servers: EmulatedServers
) -> None:
    settings = deployment_settings(redis_server, "counted", tmp_path, *servers.pools())
    model = settings.pools[0].model
    with LocalWorkers(settings, tmp_path) as workers, connect(settings) as client:
        workers.start()
        store = PartTokenStore(client, Keys(settings.broker.prefix))
        until = time.monotonic() + 60
        while not (counts := store.read([(model, part_hash(RULES))])):
            assert time.monotonic() < until, "the part was not counted"
            messages = [
                {"role": "system", "content": RULES},
                {"role": "user", "content": "Why?"},
            ]
            workers.chat("q", messages=messages, max_tokens=5).get(timeout=60)
    # Emulated servers count four characters as a token.
    assert list(counts.values()) == [len(RULES) // 4]
