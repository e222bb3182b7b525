"""A question that ends takes its waiting requests out of their queues."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import redis

from hexgen_celery.deployment import connect_deployment
from hexgen_celery.instances import InstanceDirectory
from hexgen_celery.keys import Keys
from hexgen_celery.live_cluster import instance_record
from hexgen_celery.submission import validate
from hexgen_celery.transport.inspection import QueueInspector
from tests.integration.workers.local_workers import deployment_settings, pool_of
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration


def test_a_cancelled_question_leaves_no_message(
    redis_server: EmbeddedRedis, tmp_path: Path
) -> None:
    pool = pool_of("http://127.0.0.1:9")
    settings = deployment_settings(redis_server, "withdrawn", tmp_path, pool)
    deployment = connect_deployment(settings, "control", "me@here")
    record = instance_record(settings, pool, pool.instances[0])
    InstanceDirectory(deployment.redis, deployment.keys).announce(record)
    queue = record.own_queue
    asked = {"question": "?", "workflow": "chat", "slo_seconds": 60.0, "submitted_at": time.time()}
    for number in range(2):
        submission = validate(asked, settings, deployment.databases, workflow_id=f"w{number}")
        deployment.coordinator.start(submission)
    with redis.Redis.from_url(settings.broker.url.get_secret_value()) as client:
        inspector = QueueInspector(client, Keys("withdrawn").queue_root)
        until = time.monotonic() + 10
        while inspector.lengths([queue])[0].waiting < 2:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert deployment.coordinator.cancel("w0")
        (left,) = inspector.most_urgent(queue, 10, 0.0)
        assert left.task_id.startswith("w1/")
    deployment.close()
