"""From Redis into the store: what one batch does, and what becomes of a question that cannot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import redis
import structlog
from sqlalchemy import Engine

from hexgen_celery.coordination.state import workflow_record
from hexgen_celery.core.clock import Clock, WallClock
from hexgen_celery.fault_points import reach
from hexgen_celery.keys import Keys
from hexgen_celery.store.errors import StoreOutdated, StoreUnavailable
from hexgen_celery.store.records import (
    QuestionRows,
    forgotten_rows,
    question_rows,
    running_rows,
)
from hexgen_celery.store.schema import check_schema
from hexgen_celery.store.stream import BEGIN, Entry, RecordStream
from hexgen_celery.store.writing import StoreWriter
from hexgen_celery.workflows.codec import loads
from hexgen_celery.workflows.definition import WorkflowStatus

log = structlog.get_logger(__name__)

Stored = tuple[dict[str, str], dict[str, str], list[str]]
"""A question's hash, its nodes and its trace, as Redis returns them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries with the rows they became. `refused` could not be understood, with the reason;
    `needless` are beginnings of questions whose end is there too."""

    known: tuple[tuple[Entry, QuestionRows], ...] = ()
    refused: tuple[tuple[Entry, str], ...] = ()
    needless: tuple[Entry, ...] = ()

    @property
    def size(self) -> int:
        """How many entries these are."""
        return len(self.known) + len(self.refused) + len(self.needless)


class Recording:
    """Turns entries of the stream into rows, and writes them."""

    def __init__(
        self,
        client: redis.Redis,
        keys: Keys,
        engine: Engine,
        stream: RecordStream,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._keys = keys
        self._engine = engine
        self._writer = StoreWriter(engine)
        self._stream = stream
        self._clock = clock or WallClock()

    def read(self, entries: Sequence[Entry]) -> Batch:
        """What Redis knows of the questions of `entries`, in one round trip.

        Raises:
            redis.RedisError: Redis is away; nothing happened.
        """
        ended = {entry.workflow_id for entry in entries if entry.kind != BEGIN}
        wanted = [e for e in entries if e.kind != BEGIN or e.workflow_id not in ended]
        known: list[tuple[Entry, QuestionRows]] = []
        refused: list[tuple[Entry, str]] = []
        for entry, stored in zip(wanted, self._load(wanted), strict=True):
            try:
                known.append((entry, self._rows(entry, stored)))
            except Exception as error:
                # Whatever another version, or a client's odd value, left there: one question must
                # not keep those behind it from being recorded.
                refused.append((entry, _described(error)))
        needless = tuple(entry for entry in entries if entry not in wanted)
        return Batch(tuple(known), tuple(refused), needless)

    def write(self, batch: Batch) -> int:
        """Store the batch, then take its entries out of the stream; how many rows were written.

        Calling it again after an error is safe.

        Raises:
            StoreUnavailable, StoreOutdated: nothing was written; all entries stay.
            redis.RedisError: the rows are written, their entries stay and will be written again.
        """
        written, refused = self._write([rows for _, rows in batch.known])
        reach("after-record")
        reasons = {rows.workflow_id: reason for rows, reason in refused}
        for entry, reason in batch.refused:
            self._set_aside(entry, reason)
        stored = list(batch.needless)
        for entry, rows in batch.known:
            if rows.workflow_id in reasons:
                self._set_aside(entry, reasons[rows.workflow_id])
            else:
                stored.append(entry)
        self._stream.done(stored)
        return written

    def _write(
        self, questions: Sequence[QuestionRows]
    ) -> tuple[int, list[tuple[QuestionRows, str]]]:
        """Write all together; where one of them cannot be, each for itself."""
        try:
            return self._write_all(questions), []
        except (StoreUnavailable, StoreOutdated):
            raise
        except Exception as error:
            # A database's or driver's complaint about some value: find whose.
            if len(questions) == 1:
                return 0, [(questions[0], _described(error))]
        half = len(questions) // 2
        parts = [self._write(part) for part in (questions[:half], questions[half:])]
        return sum(count for count, _ in parts), [each for _, found in parts for each in found]

    def _write_all(self, questions: Sequence[QuestionRows]) -> int:
        """Write them; into a new SQLite file, which took the place of another, with its tables."""
        try:
            return self._writer.write(questions)
        except StoreOutdated:
            check_schema(self._engine)
            return self._writer.write(questions)

    def _set_aside(self, entry: Entry, reason: str) -> None:
        log.error("a question cannot be recorded", workflow=entry.workflow_id, reason=reason)
        self._stream.set_aside(entry, reason)

    def _load(self, entries: Iterable[Entry]) -> list[Stored]:
        names = [entry.workflow_id for entry in entries]
        with self._client.pipeline(transaction=False) as pipeline:
            for name in names:
                pipeline.hgetall(self._keys.workflow(name))
                pipeline.hgetall(self._keys.nodes(name))
                pipeline.lrange(self._keys.trace(name), 0, -1)
            answers = iter(pipeline.execute())
        return cast("list[Stored]", list(zip(answers, answers, answers, strict=True)))

    def _rows(self, entry: Entry, stored: Stored) -> QuestionRows:
        fields, nodes, trace = stored
        deployment, now = self._keys.prefix, self._clock.now()
        if "submission" not in fields:
            log.warning("a question was forgotten unrecorded", workflow=entry.workflow_id)
            ended_at = None if entry.kind == BEGIN else entry.at
            return forgotten_rows(entry.workflow_id, entry.status, entry.at, ended_at, deployment)
        record = workflow_record(fields, nodes)
        if record.status is WorkflowStatus.RUNNING:
            return running_rows(record, deployment, now)
        return question_rows(record, map(loads, trace), deployment, now)


def _described(error: Exception) -> str:
    """The error without the statement and the values, which are nobody's business in a log."""
    cause = getattr(error, "orig", None) or error
    lines = str(cause).splitlines() or [""]
    return f"{type(cause).__name__}: {lines[0]}"
