"""The questions that ended lately, found through the deployment's stream of events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import redis

from hexgen_celery.coordination.state import WorkflowRecord, WorkflowStore
from hexgen_celery.keys import Keys
from hexgen_celery.trace import FIELD
from hexgen_celery.tracing.export import exportable, workload_question
from hexgen_celery.workflows.codec import loads
from hexgen_celery.workflows.definition import Submission, WorkflowStatus
from hexgen_celery.workloads import Workload

_PAGE = 2000
_MISSED = (WorkflowStatus.FAILED, WorkflowStatus.EXPIRED)


@dataclass(frozen=True, slots=True)
class RecordedQuestions:
    """What was found, oldest arrival first.

    `forgotten`: how many ended too long ago to be still known (`broker.result_ttl_seconds`).
    `unanswered`: how many ended without an answer, or had no LLM request; `missed` are those of
    them that failed or expired.
    """

    records: tuple[WorkflowRecord, ...]
    forgotten: int = 0
    unanswered: int = 0
    missed: tuple[Submission, ...] = ()

    @property
    def origin(self) -> float:
        """The arrival of the first (Unix seconds)."""
        return min((record.submission.submitted_at for record in self.records), default=0.0)

    def workload(self, name: str = "recorded") -> Workload:
        """All of them as a workload whose times begin with the first arrival."""
        questions = [workload_question(record, origin=self.origin) for record in self.records]
        return Workload(name, tuple(questions))


class History:
    """Reads the recent past of a deployment."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._store = WorkflowStore(client, keys)

    def answered(
        self, *, since: float = 0.0, limit: int | None = None, workflow: str = ""
    ) -> RecordedQuestions:
        """The last `limit` answered questions that ended after `since` (Unix seconds).

        `workflow` names the definition they must be of; "" is any.
        """
        found: list[WorkflowRecord] = []
        missed: list[Submission] = []
        forgotten = unanswered = 0
        for workflow_id in self._ended(since):
            record = self._store.load(workflow_id)
            if record is None:
                forgotten += 1
            elif workflow and record.submission.workflow != workflow:
                continue
            elif not exportable(record):
                unanswered += 1
                if record.status in _MISSED:
                    missed.append(record.submission)
            else:
                found.append(record)
            if limit is not None and len(found) == limit:
                break
        found.sort(key=lambda record: record.submission.submitted_at)
        return RecordedQuestions(tuple(found), forgotten, unanswered, tuple(missed))

    def _ended(self, since: float) -> Iterator[str]:
        """Ids of questions, the last that ended first."""
        newest, oldest = "+", f"{round(since * 1000)}"
        while True:
            entries = self._client.xrevrange(self._keys.events, newest, oldest, _PAGE)
            rows = cast("list[tuple[str, dict[str, str]]]", entries)
            for _, values in rows:
                event = loads(values[FIELD])
                if event["event"] == "finished":
                    yield str(event["workflow"])
            if len(rows) < _PAGE:
                return
            newest = f"({rows[-1][0]}"
