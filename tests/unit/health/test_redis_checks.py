"""What `hexgen doctor` finds in Redis' own report."""

from __future__ import annotations

from typing import Any

import pytest

from hexgen_celery.health.outcome import Verdict
from hexgen_celery.health.redis_server import check_redis

MIB = 1024 * 1024
HEALTHY: dict[str, Any] = {
    "role": "master",
    "loading": 0,
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "aof_last_bgrewrite_status": "ok",
    "maxmemory": 0,
    "maxmemory_policy": "noeviction",
    "used_memory": 10 * MIB,
    "total_system_memory": 1000 * MIB,
}


def _verdicts(**changed: Any) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in check_redis({**HEALTHY, **changed})}


def test_a_healthy_redis_passes() -> None:
    assert set(_verdicts().values()) == {Verdict.OK}


@pytest.mark.parametrize(
    ("changed", "name", "verdict"),
    [
        ({"aof_enabled": 0}, "redis persistence", Verdict.WARNING),
        ({"loading": 1}, "redis persistence", Verdict.FAILED),
        ({"aof_last_write_status": "err"}, "redis persistence", Verdict.FAILED),
        ({"aof_last_bgrewrite_status": "err"}, "redis persistence", Verdict.WARNING),
        ({"maxmemory_policy": "allkeys-lru"}, "redis memory", Verdict.WARNING),
        (
            {"maxmemory_policy": "allkeys-lru", "maxmemory": 100 * MIB},
            "redis memory",
            Verdict.FAILED,
        ),
        ({"maxmemory": 12 * MIB}, "redis memory", Verdict.WARNING),
        ({"maxmemory": 10 * MIB}, "redis memory", Verdict.FAILED),
        ({"used_memory": 600 * MIB}, "redis memory", Verdict.WARNING),
        ({"role": "slave"}, "redis role", Verdict.FAILED),
    ],
)
def test_each_trouble_has_its_verdict(changed: dict[str, Any], name: str, verdict: Verdict) -> None:
    found = {check.name: check for check in check_redis({**HEALTHY, **changed})}
    assert found[name].verdict is verdict
    assert found[name].hint
    others = {check.verdict for other, check in found.items() if other != name}
    assert others <= {Verdict.OK}


def test_a_report_that_says_little_is_no_failure() -> None:
    verdicts = {check.verdict for check in check_redis({"aof_enabled": 1})}
    assert verdicts == {Verdict.OK}
