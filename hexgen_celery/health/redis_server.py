"""Checks of a Redis server by its own report (INFO). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hexgen_celery.health.outcome import Check, failed, passed, warned

WARN_SHARE = 0.8
FULL_SHARE = 0.95
WARN_SHARE_OF_HOST = 0.5
MIB = 1024 * 1024


def check_redis(info: Mapping[str, Any]) -> Iterator[Check]:
    """Persistence, eviction, memory and role."""
    yield _persistence(info)
    yield _memory(info)
    if info.get("role", "master") != "master":
        hint = "name the master in broker.url, or use sentinel:// with broker.sentinel_master"
        yield failed("redis role", "this is a replica, which takes no writes", hint)


def _persistence(info: Mapping[str, Any]) -> Check:
    name = "redis persistence"
    if info.get("loading"):
        return failed(name, "Redis is still loading its data", "wait until it has")
    if not info.get("aof_enabled"):
        detail = "appendonly is off: a restart of Redis forgets every running question"
        return warned(name, detail, "set `appendonly yes` and `appendfsync everysec`")
    if info.get("aof_last_write_status", "ok") != "ok":
        return failed(name, "the append-only file cannot be written", "make room on Redis' disk")
    if info.get("aof_last_bgrewrite_status", "ok") != "ok":
        hint = "see Redis' log: memory for the fork, or its disk"
        return warned(name, "the last rewrite of the append-only file failed", hint)
    return passed(name, "append-only file")


def _memory(info: Mapping[str, Any]) -> Check:
    name = "redis memory"
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        detail = f"maxmemory-policy {policy} deletes queues and state when memory is short"
        hint = "set `maxmemory-policy noeviction`"
        return failed(name, detail, hint) if limit else warned(name, detail, hint)
    host = int(info.get("total_system_memory", 0))
    most = limit or host
    detail = f"{used // MIB} MiB of {most // MIB} MiB" if most else f"{used // MIB} MiB"
    hint = "give Redis more memory, or shorten broker.result_ttl_seconds"
    if limit and used > FULL_SHARE * limit:
        return failed(name, detail, hint)
    if most and used > (WARN_SHARE if limit else WARN_SHARE_OF_HOST) * most:
        return warned(name, detail, hint)
    return passed(name, detail)
