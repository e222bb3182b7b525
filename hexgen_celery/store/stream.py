"""The stream from which recorders take what began and ended: nothing leaves it unrecorded.

Every recorder of a deployment belongs to one consumer group. An entry is deleted when it is stored,
so that what is in the stream is what waits. It is handed to another recorder when the one that took
it is silent for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis

from hexgen_celery.instances import redis_seconds
from hexgen_celery.keys import Keys
from hexgen_celery.scripts import script_source

GROUP = "recorder"
BEGIN, END = "begin", "end"
SILENT_MS = 60_000
GONE_MS = 2 * 86_400_000
ASIDE_KEPT = 1000
LATELY_SECONDS = 3600.0
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
    ever dropped unread because too many waited, how many are set aside because they cannot be
    stored, and when the last was dropped (seconds ago; None: never, or before that was noted)."""

    waiting: int = 0
    oldest_seconds: float = 0.0
    dropped: int = 0
    aside: int = 0
    dropped_seconds: float | None = None

    @property
    def loses(self) -> bool:
        """Whether something is set aside, or was dropped within `LATELY_SECONDS`."""
        lately = self.dropped_seconds is not None and self.dropped_seconds <= LATELY_SECONDS
        return lately or self.aside > 0

    @property
    def dropped_text(self) -> str:
        """How many were dropped, and when the last."""
        text = f"{self.dropped} dropped unrecorded"
        ago = self.dropped_seconds
        return text if ago is None else f"{text} (the last {ago / 60:.0f} min ago)"


def ask_backlog(pipeline: Any, key: str) -> dict[str, Any]:
    """Ask for the backlog of the stream `key`; what was asked, by name and in order."""
    return {
        "records waiting": pipeline.xlen(key),
        "records first": pipeline.xrange(key, count=1),
        "records dropped": pipeline.get(f"{key}:dropped"),
        "records dropped at": pipeline.get(f"{key}:dropped_at"),
        "records aside": pipeline.xlen(f"{key}:aside"),
    }


def backlog_of(answers: Mapping[str, Any], now: float) -> Backlog:
    """The backlog by Redis' answers at `now`: an entry's name begins with its millisecond."""
    first, gone_at = answers["records first"], answers["records dropped at"]
    since = int(first[0][0].partition("-")[0]) / 1000 if first else now
    return Backlog(
        answers["records waiting"],
        max(0.0, now - since),
        int(answers["records dropped"] or 0),
        answers["records aside"],
        max(0.0, now - float(gone_at)) if gone_at else None,
    )


class RecordStream:
    """One recorder's view of the stream. `consumer` is unique in the deployment.

    Every method may raise `redis.RedisError`; calling it again is safe.
    """

    def __init__(self, client: redis.Redis, keys: Keys, consumer: str = "reader") -> None:
        self._client = client
        self._key = keys.records
        self._consumer = consumer

    @property
    def _aside(self) -> str:
        return f"{self._key}:aside"

    def join(self, gone_ms: int = GONE_MS) -> None:
        """Make the group, unless there is one; it begins with all that waits.

        Recorders that hold nothing and were silent for `gone_ms` are forgotten: a container has a
        new name each time.
        """
        try:
            self._client.xgroup_create(self._key, GROUP, "0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        script = script_source("forget_consumers")
        self._client.eval(script, 1, self._key, GROUP, self._consumer, str(gone_ms))

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

    def forget_aside(self) -> int:
        """Delete all that was set aside; how many entries that were."""
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.xlen(self._aside)
            pipeline.delete(self._aside)
            count, _ = pipeline.execute()
        return int(count)

    def backlog(self) -> Backlog:
        """What is not in the store."""
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            asked = ask_backlog(pipeline, self._key)
            now, *answers = pipeline.execute()
        return backlog_of(dict(zip(asked, answers, strict=True)), redis_seconds(now))

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
