"""One name, one server: an instance is not announced under a name that another server goes by."""

from __future__ import annotations

import time
from collections.abc import Callable

import redis
import structlog

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.instances import InstanceDirectory, InstanceRecord

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.5


def refuse_taken_name(
    directory: InstanceDirectory,
    record: InstanceRecord,
    dead_after_seconds: float,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Return once no worker announces another server under the name of `record`.

    Both would overwrite each other's record with every beat, so that routers saw one instance that
    moves to and fro. What a worker that died has left is waited for, `dead_after_seconds` at most.
    While Redis is away nothing is known, and nobody refused.

    Raises:
        InvalidSettings: another worker goes on announcing one.
    """
    try:
        first = other = _other(directory, record, dead_after_seconds)
        while first is not None and other is not None:
            if other.beat > first.beat:
                raise InvalidSettings(
                    f"{other.worker} announces {other.url} as instance {record.name!r}",
                    field="instance",
                    hint="give each server a name of its own, or stop that worker",
                )
            sleep(LOOK_SECONDS)
            other = _other(directory, record, dead_after_seconds)
    except redis.RedisError as error:
        log.warning("nobody knows whether the name is free", error=str(error))


def _other(
    directory: InstanceDirectory, record: InstanceRecord, dead_after_seconds: float
) -> InstanceRecord | None:
    now, records = directory.snapshot()
    return next(
        (
            each
            for each in records
            if each.name == record.name
            and (each.url, each.queue) != (record.url, record.queue)
            and now - each.beat <= dead_after_seconds
        ),
        None,
    )
