"""What a router reads of Redis for one decision."""

from __future__ import annotations

import pytest
import redis

from hexgen_celery.instances import InstanceDirectory, InstanceRecord
from hexgen_celery.keys import Keys
from hexgen_celery.live_snapshot import SnapshotReader
from hexgen_celery.policies import PolicyChoice, PolicyStore, scope

pytestmark = pytest.mark.integration

RECORD = InstanceRecord("i", "gpu.a.x", "a", "m é", "a100-80g-x1-qwen3-30b-a3b", "http://1", "w", 8)


def test_an_empty_deployment_has_nothing(redis_client: redis.Redis, keys: Keys) -> None:
    found = SnapshotReader(redis_client, keys).read()
    assert (found.records, found.load, found.policies, found.notes) == ((), {}, {}, ())
    assert found.now > 0


def test_everything_is_read_as_it_was_written(redis_client: redis.Redis, keys: Keys) -> None:
    InstanceDirectory(redis_client, keys).announce(RECORD)
    redis_client.hset(keys.load, "gpu.a.x.i:waiting", "3")
    odd = "of\ntwo lines \x1e or é"
    PolicyStore(redis_client, keys).set(PolicyChoice("fastest"), tenant=odd)
    found = SnapshotReader(redis_client, keys).read()
    assert [(record.name, record.model) for record in found.records] == [("i", "m é")]
    assert found.load == {"gpu.a.x.i:waiting": "3"}
    assert found.policies == {scope(tenant=odd): PolicyChoice("fastest").to_json()}


def test_a_placement_is_told_once(redis_client: redis.Redis, keys: Keys) -> None:
    reader = SnapshotReader(redis_client, keys)
    for note in ("one", "two"):
        redis_client.xadd(keys.placements, {"n": note})
    assert reader.read().notes == ("one", "two")
    assert reader.read().notes == ()
    redis_client.xadd(keys.placements, {"n": "three"})
    assert reader.read().notes == ("three",)


def test_the_ledger_is_another_mapping_where_anything_changed(
    redis_client: redis.Redis, keys: Keys
) -> None:
    reader = SnapshotReader(redis_client, keys)
    redis_client.hset(keys.load, "gpu.a.x:waiting", "1")
    first = reader.read().load
    assert reader.read().load is first
    redis_client.hincrby(keys.load, "gpu.a.x:waiting", 1)
    assert reader.read().load == {"gpu.a.x:waiting": "2"}
    assert first == {"gpu.a.x:waiting": "1"}
    redis_client.delete(keys.load)
    assert reader.read().load == {}
