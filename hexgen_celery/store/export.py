"""The questions answered last as a workload, wherever they are still known."""

from __future__ import annotations

from dataclasses import dataclass

from hexgen_celery.store.questions import exportable, stored_workload_question
from hexgen_celery.store.reading import StoreReader
from hexgen_celery.tracing.export import workload_question
from hexgen_celery.tracing.history import History
from hexgen_celery.workloads import Workload


@dataclass(frozen=True, slots=True)
class ExportedQuestions:
    """A workload, and in words where its questions came from and what was left out."""

    workload: Workload
    origins: str


def export_workload(history: History, reader: StoreReader | None, limit: int) -> ExportedQuestions:
    """The last `limit` answered questions, oldest arrival first; times begin with the first.

    Raises:
        redis.RedisError: Redis is away.
        StoreUnavailable, StoreOutdated: Redis knows less than `limit`, and the store cannot tell.
    """
    recent = history.answered(limit=limit)
    known = {record.submission.workflow_id for record in recent.records}
    missing = limit - len(known)
    older = reader.answered(limit=limit) if reader and missing > 0 else []
    stored = [each for each in older if each.workflow["id"] not in known and exportable(each)]
    stored = stored[: max(0, missing)]
    arrivals = [each.workflow["submitted_at"] for each in stored]
    origin = min([*arrivals, *([recent.origin] if recent.records else [])], default=0.0)
    questions = [
        *(stored_workload_question(each, origin=origin) for each in stored),
        *(workload_question(record, origin=origin) for record in recent.records),
    ]
    questions.sort(key=lambda question: question.arrival or 0.0)
    origins = f"{len(known)} from Redis, {len(stored)} from the store"
    if reader is None or not reader.exists:
        origins = f"{len(known)} from Redis, {recent.forgotten} forgotten"
    origins += f"; left out: {recent.unanswered} unanswered"
    return ExportedQuestions(Workload("recorded", tuple(questions)), origins)
