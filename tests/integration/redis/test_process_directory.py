"""The records of processes in Redis, and the figures that are read around them."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
import redis
import structlog

from hexgen_celery.keys import Keys
from hexgen_celery.metrics.targets import scrape_targets
from hexgen_celery.overview.counts import TENANT_FIELDS, CountsReader
from hexgen_celery.processes import SILENT_SECONDS, ProcessDirectory, ProcessRecord
from hexgen_celery.settings import MetricsSettings, Settings, SloClassSettings, TenantSettings
from workers.presence import Presence

pytestmark = pytest.mark.integration

RECORD = ProcessRecord("sql-1@h", "sql", "1.0", "abc")


def _redis_now(client: redis.Redis) -> float:
    seconds, microseconds = client.time()
    return seconds + microseconds / 1e6


def test_an_announced_process_is_known_until_it_is_withdrawn(
    redis_client: redis.Redis, keys: Keys
) -> None:
    directory = ProcessDirectory(redis_client, keys)
    directory.announce(RECORD, "h:9464")
    (found,) = directory.alive()
    assert (found.worker, found.kind, found.endpoint) == ("sql-1@h", "sql", "h:9464")
    assert abs(found.beat - _redis_now(redis_client)) < 5
    directory.withdraw("sql-1@h")
    assert directory.alive() == []


def test_a_process_that_fell_silent_is_forgotten(redis_client: redis.Redis, keys: Keys) -> None:
    directory = ProcessDirectory(redis_client, keys)
    directory.announce(RECORD, "")
    stored = json.loads(str(redis_client.hget(keys.processes, "sql-1@h")))
    stored["beat"] -= SILENT_SECONDS + 1
    stored["of a later version"] = 1
    redis_client.hset(keys.processes, "sql-1@h", json.dumps(stored))
    assert directory.alive() == []
    assert redis_client.hlen(keys.processes) == 0


@pytest.mark.parametrize(
    "odd",
    [
        "{no JSON",
        "[]",
        "null",
        '"text"',
        '{"kind": "sql"}',
        '{"worker": "x@h", "kind": "sql", "version": "1", "fingerprint": "f", "beat": "never"}',
        '{"worker": null, "kind": "sql", "version": "1", "fingerprint": "f", "beat": 1e12}',
    ],
)
def test_what_is_no_record_hides_no_other_process(
    redis_client: redis.Redis, keys: Keys, settings: Settings, odd: str
) -> None:
    directory = ProcessDirectory(redis_client, keys)
    directory.announce(RECORD, "h:9464")
    redis_client.hset(keys.processes, "odd@h", odd)
    with structlog.testing.capture_logs() as logs:
        (found,) = directory.alive()
    assert found.worker == RECORD.worker
    assert [each.worker for each in CountsReader(redis_client, settings).read().processes] == [
        RECORD.worker
    ]
    (line,) = [each for each in logs if each["event"] == "a process is left out"]
    assert line["record"] == odd


@pytest.mark.parametrize("kind", ["control", "llm", "recorder"])
def test_presence_announces_endpoint_tells_all_targets_and_withdraws(
    redis_client: redis.Redis, keys: Keys, settings: Settings, kind: str
) -> None:
    metrics = MetricsSettings(enabled=True, port=0)
    observed = settings.model_copy(update={"metrics": metrics})
    presence = Presence(observed, redis_client, keys, kind, "one@h")
    presence.start()
    try:
        (group,) = scrape_targets(ProcessDirectory(redis_client, keys).alive())
        assert group["labels"] == {"kind": kind, "worker": "one@h"}
        with urllib.request.urlopen(f"http://{group['targets'][0]}/targets", timeout=10) as answer:
            assert json.load(answer) == [group]
    finally:
        presence.stop()
    assert ProcessDirectory(redis_client, keys).alive() == []


def test_with_metrics_off_a_process_is_known_all_the_same(
    redis_client: redis.Redis, keys: Keys, settings: Settings
) -> None:
    presence = Presence(settings, redis_client, keys, "llm", "llm-a@h")
    presence.start()
    try:
        (found,) = ProcessDirectory(redis_client, keys).alive()
        assert found.endpoint == ""
        assert presence.observer.refused("any") is None  # type: ignore[func-returns-value]
    finally:
        presence.stop()


def _count(client: redis.Redis, keys: Keys, fields: dict[tuple[str, str, str], int]) -> None:
    mapping: dict[Any, Any] = {
        json.dumps(list(name), separators=(",", ":")): count for name, count in fields.items()
    }
    client.hset(keys.tenants, mapping=mapping)


def test_an_empty_deployment_has_figures_too(redis_client: redis.Redis, settings: Settings) -> None:
    counts = CountsReader(redis_client, settings).read()
    assert counts.questions_running == 0
    assert counts.tenants == ()
    assert counts.timers_age_seconds is None
    assert counts.outbox.overdue_seconds == 0
    assert [pool.name for pool in counts.pools] == ["sql"]


def test_tenants_without_end_are_not_read_whole(
    redis_client: redis.Redis, keys: Keys, settings: Settings
) -> None:
    acme = TenantSettings(name="acme", classes=(SloClassSettings(name="gold", seconds=5),))
    known = settings.model_copy(update={"tenants": (acme,)})
    _count(redis_client, keys, {("acme", "gold", "met"): 3, ("other", "", "accepted"): 1})
    reader = CountsReader(redis_client, known)
    assert {tenant.tenant for tenant in reader.read().tenants} == {"acme", "other"}
    flood = {(f"t{number}", "", "accepted"): 1 for number in range(TENANT_FIELDS)}
    _count(redis_client, keys, flood)
    (found,) = reader.read().tenants
    assert found.tenant == "acme"
    assert found.classes == {"gold": {"met": 3}}


def test_overdue_entries_and_leases_are_told(
    redis_client: redis.Redis, keys: Keys, settings: Settings
) -> None:
    now_ms = _redis_now(redis_client) * 1000
    redis_client.zadd(keys.outbox, {"w/c-1/1": now_ms - 30_000, "w2": now_ms + 5_000})
    redis_client.zadd(keys.running, {"w/c-2/1": now_ms - 1_000, "w/c-3/1": now_ms + 60_000})
    redis_client.hset(keys.load, "gpu.a.x:waiting", 1)
    redis_client.xadd(keys.records, {"w": "w"}, id=f"{int(now_ms) - 90_000}-0")
    counts = CountsReader(redis_client, settings).read()
    assert counts.outbox.entries == 2
    assert counts.outbox.unsent == 1
    assert 29 < counts.outbox.overdue_seconds < 60
    assert (counts.requests_running, counts.leases_overdue) == (2, 1)
    assert counts.store.waiting == 1
    assert 89 < counts.store.oldest_seconds < 120
