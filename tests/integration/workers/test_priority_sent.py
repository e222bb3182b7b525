"""The server gets each request with the rank that it had in its queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from hexgen_celery.api import Client
from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import LocalWorkers, deployment_settings, pool_of
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration


def test_priority_is_the_latest_start_in_milliseconds(
    redis_server: EmbeddedRedis, tmp_path: Path
) -> None:
    with FakeLlm(seconds=0.02) as server:
        pool = pool_of(server.url, concurrency=4)
        settings = deployment_settings(redis_server, "priority", tmp_path, pool)
        with LocalWorkers(settings, tmp_path) as workers:
            workers.start()
            asked = workers.chat("how many?", slo_seconds=60.0)
            asked.get(timeout=60.0)
            with Client(settings) as client:
                events = client.trace(asked.id)
        (priority,) = [body["priority"] for body in server.requests if "priority" in body]
    (started,) = [event for event in events if event["event"] == "started"]
    (sent,) = [event for event in events if event["event"] == "sent"]
    assert isinstance(priority, int)
    assert priority == pytest.approx(sent["latest_start"] * 1000, abs=1)
    assert priority < started["deadline"] * 1000
