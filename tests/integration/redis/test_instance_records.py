"""Announcements that are no records here, such as another release's, hide no other instance."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
import redis
import structlog

from hexgen_celery.instances import InstanceDirectory, InstanceRecord, InstanceState
from hexgen_celery.keys import Keys
from hexgen_celery.live_snapshot import SnapshotReader
from hexgen_celery.overview.counts import CountsReader
from hexgen_celery.settings import Settings

pytestmark = pytest.mark.integration

RECORD = InstanceRecord("a1", "gpu.a100.x", "a100", "m", "p", "http://1", "llm-a1@h", 64)
BEAT = 4e9


def _announced(name: str, **changes: Any) -> str:
    return json.dumps({**asdict(RECORD), "name": name, "beat": BEAT, **changes})


@pytest.mark.parametrize(
    "odd",
    [
        "{no JSON at all",
        "[1]",
        "null",
        json.dumps({"name": "without most fields", "state": "ready"}),
        _announced("odd beat", beat="never"),
        _announced("odd queue", queue=None),
        _announced("odd tags", tags=[["nested"]]),
        _announced("no tags", tags=3),
    ],
)
def test_what_is_no_record_hides_no_other_instance_and_is_told_once(
    redis_client: redis.Redis, keys: Keys, settings: Settings, odd: str
) -> None:
    directory = InstanceDirectory(redis_client, keys)
    directory.announce(RECORD)
    redis_client.hset(keys.instances, "odd", odd)
    with structlog.testing.capture_logs() as logs:
        reader = SnapshotReader(redis_client, keys)
        for _ in range(3):
            directory.announce(RECORD)
            assert [each.name for each in reader.read().records] == ["a1"]
            assert [each.name for each in directory.snapshot()[1]] == ["a1"]
            (counted,) = CountsReader(redis_client, settings).read().instances
            assert counted.record.name == "a1"
    told = [line for line in logs if line["event"] == "an instance is left out"]
    assert len(told) == 1
    assert told[0]["error"]


def test_a_state_of_another_release_is_down_and_says_so(
    redis_client: redis.Redis, keys: Keys
) -> None:
    redis_client.hset(keys.instances, "b1", _announced("b1", state="hibernating"))
    now, (record,) = InstanceDirectory(redis_client, keys).snapshot()
    assert record.state_at(now, 10.0) is InstanceState.DOWN
    assert not record.alive(now, 10.0)
    assert "'hibernating'" in record.reason
