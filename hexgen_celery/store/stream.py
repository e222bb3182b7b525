"""The stream from which recorders take what began and ended: nothing leaves it unrecorded.

Every recorder of a deployment belongs to one consumer group. An entry is deleted when it is stored,
so that what is in the stream is what waits. It is handed to another recorder when the one that took
it is silent for long.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis

from hexgen_celery.keys import Keys

GROUP = "recorder"
BEGIN, END = "begin", "end"
SILENT_MS = 60_000
ASIDE_KEPT = 1000
_REASON_CHARACTERS = 500
_FIELDS = ("w", "k", "s", "t")

Rows = list[tuple[str, dict[str, str] | None]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A question began or ended (`kind`), with that status, `at` Unix seconds."""

    id: str
    workflow_id: str
    kind: str
    status: str
    at: float


@dataclass(frozen=True, slots=True)
class SetAside:
    """An entry that could not be stored, and why."""

    id: str
    workflow_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is not in the store: entries that wait, the age of the oldest (seconds), how many were
    dropped unread because too many waited, how many were set aside."""

    waiting: int
    oldest_seconds: float
    dropped: int
    aside: int


class RecordStream:
    """One recorder's view of the stream. `consumer` is unique in the deployment.

    Every method may raise `redis.RedisError`; calling it again is safe.
    """

    def __init__(self, client: redis.Redis, keys: Keys, consumer: str = "reader") -> None:
        self._client = client
        self._key = keys.records
        self._consumer = consumer

    @property
    def _dropped(self) -> str:
        return f"{self._key}:dropped"

    @property
    def _aside(self) -> str:
        return f"{self._key}:aside"

    def join(self) -> None:
        """Make the group, unless there is one; it begins with all that waits."""
        try:
            self._client.xgroup_create(self._key, GROUP, "0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def held(self, count: int) -> list[Entry]:
        """What this recorder took and did not finish, as before its restart."""
        return self._read("0", count, None)

    def take(self, count: int, wait_seconds: float) -> list[Entry]:
        """Up to `count` new entries, waiting up to `wait_seconds` for the first."""
        return self._read(">", count, max(1, round(wait_seconds * 1000)))

    def take_over(self, count: int, silent_ms: int = SILENT_MS) -> list[Entry]:
        """Entries that another recorder took so long ago that it must have died."""
        answer = self._client.xautoclaim(
            self._key, GROUP, self._consumer, silent_ms, "0-0", count=count
        )
        return self._entries(answer[1])

    def done(self, entries: Iterable[Entry]) -> None:
        """They are stored."""
        self._finish([entry.id for entry in entries])

    def set_aside(self, entry: Entry, reason: str) -> None:
        """It cannot be stored: keep it with the reason, out of the way."""
        fields: dict[Any, Any] = {**_fields(entry), "reason": reason[:_REASON_CHARACTERS]}
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.xadd(self._aside, fields, maxlen=ASIDE_KEPT)
            pipeline.xack(self._key, GROUP, entry.id)
            pipeline.xdel(self._key, entry.id)
            pipeline.execute()

    def aside(self, limit: int = 20) -> list[SetAside]:
        """What was set aside last, newest first."""
        rows = cast("Rows", self._client.xrevrange(self._aside, count=limit))
        return [SetAside(name, row["w"], row["reason"]) for name, row in rows if row]

    def try_again(self) -> int:
        """Put all that was set aside back; how many entries that were."""
        rows = cast("Rows", self._client.xrange(self._aside))
        for name, row in rows:
            with self._client.pipeline(transaction=True) as pipeline:
                fields: dict[Any, Any] = {key: (row or {}).get(key, "") for key in _FIELDS}
                pipeline.xadd(self._key, fields)
                pipeline.xdel(self._aside, name)
                pipeline.execute()
        return len(rows)

    def backlog(self) -> Backlog:
        """What is not in the store."""
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.xlen(self._key)
            pipeline.xrange(self._key, count=1)
            pipeline.get(self._dropped)
            pipeline.xlen(self._aside)
            waiting, oldest, dropped, aside = pipeline.execute()
        age = time.time() - int(oldest[0][0].split("-")[0]) / 1000 if oldest else 0.0
        return Backlog(int(waiting), max(0.0, age), int(dropped or 0), int(aside))

    def _read(self, start: str, count: int, block: int | None) -> list[Entry]:
        streams: dict[Any, Any] = {self._key: start}
        answer = self._client.xreadgroup(GROUP, self._consumer, streams, count, block)
        return [entry for _, rows in _streams(answer) for entry in self._entries(rows)]

    def _entries(self, rows: Rows) -> list[Entry]:
        """The entries of an answer; those that were dropped meanwhile are only names any more.

        XAUTOCLAIM before Redis 7 does not even name them; `held` finds them afterwards.
        """
        self._finish([name for name, row in rows if name and not row])
        return [
            Entry(name, row["w"], row["k"], row["s"], float(row["t"])) for name, row in rows if row
        ]

    def _finish(self, names: Sequence[str]) -> None:
        if names:
            with self._client.pipeline(transaction=True) as pipeline:
                pipeline.xack(self._key, GROUP, *names)
                pipeline.xdel(self._key, *names)
                pipeline.execute()


def _streams(answer: Any) -> Iterable[tuple[str, Rows]]:
    """The answer by stream, whichever protocol the connection speaks."""
    if isinstance(answer, dict):
        return [(name, rows[0] if len(rows) == 1 else rows) for name, rows in answer.items()]
    return cast("list[tuple[str, Rows]]", answer or [])


def _fields(entry: Entry) -> dict[str, str]:
    values = (entry.workflow_id, entry.kind, entry.status, f"{entry.at:.4f}")
    return dict(zip(_FIELDS, values, strict=True))
