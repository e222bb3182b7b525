"""The processes of a deployment as they announce themselves: kind, version, settings, endpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

import redis
import structlog

from hexgen_celery.instances import redis_seconds
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings

log = structlog.get_logger(__name__)

ANNOUNCE_SECONDS = 5.0
SILENT_SECONDS = 4 * ANNOUNCE_SECONDS
"""A process that was not heard of for so long is gone."""

_OF_ONE_HOST = {"log", "up", "metrics", "llm", "broker", "emulator"}
_FINGERPRINT_BYTES = 6
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """One process. `worker` is its Celery node name, or a name like one; `kind` that of worker.

    `fingerprint` is short for the settings that all should share; `endpoint` is `host:port` of its
    metrics, "" without; `beat` is Unix seconds on Redis' clock.
    """

    worker: str
    kind: str
    version: str
    fingerprint: str
    endpoint: str = ""
    beat: float = 0.0

    def alive(self, now: float) -> bool:
        """Whether it was heard of lately; `now` on Redis' clock."""
        return now - self.beat <= SILENT_SECONDS


_FIELDS = frozenset(field.name for field in fields(ProcessRecord))


class ProcessDirectory:
    """The records of all processes."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._key = keys.processes

    def announce(self, record: ProcessRecord, endpoint: str) -> None:
        """Write `record` with its `endpoint` and the present time as its beat."""
        now = redis_seconds(self._client.time())
        values = {**asdict(record), "endpoint": endpoint, "beat": now}
        self._client.hset(self._key, record.worker, json.dumps(values, separators=(",", ":")))

    def withdraw(self, worker: str) -> None:
        """Remove the record of `worker`."""
        self._client.hdel(self._key, worker)

    def alive(self) -> list[ProcessRecord]:
        """The processes that were heard of lately, by name; records of others are removed."""
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            pipeline.hvals(self._key)
            answer, values = pipeline.execute()
        now, records = redis_seconds(answer), parse_processes(values)
        gone = [record.worker for record in records if not record.alive(now)]
        if gone:
            self._client.hdel(self._key, *gone)
        return [record for record in records if record.alive(now)]


def settings_fingerprint(settings: Settings) -> str:
    """Equal for processes that are configured alike, but for what may differ between hosts."""
    shared = settings.model_dump(mode="json", exclude=_OF_ONE_HOST)
    text = json.dumps(shared, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=_FINGERPRINT_BYTES).hexdigest()


def parse_processes(values: Iterable[str | bytes]) -> list[ProcessRecord]:
    """The records in JSON `values`, by name; fields of other versions are left out, and so is,
    with a warning, what is no record: one such announcement must not hide all the others."""
    known = (record for record in map(_parsed, values) if record is not None)
    return sorted(known, key=lambda record: record.worker)


def _parsed(value: str | bytes) -> ProcessRecord | None:
    try:
        known = cast("dict[str, Any]", json.loads(value))
        return _checked({name: each for name, each in known.items() if name in _FIELDS})
    except (ValueError, TypeError, AttributeError) as error:
        log.warning("a process is left out", record=value[:_SHOWN], error=str(error))
        return None


def _checked(known: dict[str, Any]) -> ProcessRecord:
    """The record; its fields may hold anything that JSON can."""
    beat = float(known.pop("beat", 0.0))
    wrong = [name for name, each in known.items() if not isinstance(each, str)]
    if wrong:
        raise TypeError(f"{', '.join(wrong)}: no text")
    return ProcessRecord(**known, beat=beat)
