"""LLM instances as their workers announce them: one record per instance, renewed by a heartbeat."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, cast

import redis

from hexgen_celery.keys import Keys

MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """One LLM server and the worker that feeds it.

    `beat` is Unix seconds on Redis' clock, so that hosts need not agree on the time; `ready` is
    False while the server does not answer.
    """

    name: str
    queue: str
    gpu: str
    model: str
    profile: str
    url: str
    worker: str
    concurrency: int
    ready: bool = True
    beat: float = 0.0

    def alive(self, now: float, dead_after_seconds: float) -> bool:
        """Whether requests may be sent there at `now` (Redis' clock)."""
        return self.ready and now - self.beat <= dead_after_seconds


class InstanceDirectory:
    """The records of all instances."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._key = keys.instances

    def announce(self, record: InstanceRecord) -> None:
        """Write `record` with the present time as its beat."""
        now = redis_seconds(self._client.time())
        values = {**asdict(record), "beat": now}
        self._client.hset(self._key, record.name, json.dumps(values, separators=(",", ":")))

    def withdraw(self, name: str) -> None:
        """Remove the record of `name`."""
        self._client.hdel(self._key, name)

    def snapshot(self) -> tuple[float, list[InstanceRecord]]:
        """Redis' time (Unix seconds) and every record, by name."""
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            pipeline.hvals(self._key)
            now, values = pipeline.execute()
        return redis_seconds(now), parse_records(values)


def redis_seconds(answer: Any) -> float:
    """The answer of Redis' TIME as Unix seconds."""
    seconds, microseconds = cast(tuple[int, int], answer)
    return float(seconds) + float(microseconds) / MICROSECONDS


def parse_records(values: Iterable[str | bytes]) -> list[InstanceRecord]:
    """The records in JSON `values`, by name."""
    records = [InstanceRecord(**json.loads(value)) for value in values]
    return sorted(records, key=lambda record: record.name)
