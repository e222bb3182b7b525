"""What leaves the coordinator: messages to publish and results to store, and who does it.

A transition writes what must be sent into the outbox in the same step as the state. The process
that made it sends at once and confirms; what was not confirmed in time a control worker sends
again, so that a kill between the two costs seconds, not a question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol

import structlog

from hexgen_celery.errors import HexgenError
from hexgen_celery.fault_points import reach
from hexgen_celery.names import SQL_STAGES, stage_task, stage_task_id
from hexgen_celery.references import RequestRef
from hexgen_celery.scripts import Scripts
from hexgen_celery.trace import traceable
from hexgen_celery.transport.messages import Urgency
from hexgen_celery.workflows.codec import dumps
from hexgen_celery.workflows.definition import (
    Json,
    NodeKind,
    NodeSpec,
    Submission,
    WorkflowStatus,
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One request that is ready to be sent.

    `resent` says that it may have been sent before; `round` how many rounds of its step are over.
    `siblings_until` is when the slowest other request of its stage that was sent before is expected
    to end (Unix seconds; 0 for none), whoever placed it. `ready_at` is when it became ready (Unix
    seconds), by which some orders rank it for as long as it waits; 0 is just now. `too_short` is a
    context (tokens) that its last attempt did not fit into; 0 where it did.
    """

    ref: RequestRef
    spec: NodeSpec
    submission: Submission
    resent: bool = False
    round: int = 0
    siblings_until: float = 0.0
    ready_at: float = 0.0
    too_short: int = 0

    @property
    def task(self) -> str:
        """The Celery task that runs it."""
        if self.spec.kind is NodeKind.SQL:
            return stage_task(SQL_STAGES[0])
        return stage_task(self.spec.stage)

    @property
    def task_id(self) -> str:
        """The Celery id of its message."""
        return stage_task_id(self.ref.workflow_id, self.ref.node_id, self.ref.attempt)

    @property
    def kwargs(self) -> Json:
        """All that the message carries."""
        return {
            "workflow_id": self.ref.workflow_id,
            "node_id": self.ref.node_id,
            "attempt": self.ref.attempt,
        }


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a request went and what it adds to that queue's ledger.

    Tokens left at None are the request's own estimates. Seconds of work are integer microseconds,
    so that they sum to exactly zero. `budget` is the request's share of its question's time
    (seconds), `expected_end` when it should be done (Unix seconds). `reasons` goes into the trace;
    `urgency` is what the message is queued by; `note` tells other routers what its instance will
    have in its cache (`prefix_caches`).
    """

    queue: str
    prefill_tokens: int | None = None
    output_tokens: int | None = None
    prefill_us: int | None = None
    decode_us: int | None = None
    budget: float | None = None
    expected_end: float | None = None
    reasons: Mapping[str, float | str] = field(default_factory=dict)
    urgency: Urgency | None = None
    note: str | None = None

    def to_json(self) -> Json:
        """The values that are known."""
        names = (
            "queue",
            "prefill_tokens",
            "output_tokens",
            "prefill_us",
            "decode_us",
            "budget",
            "expected_end",
            "note",
        )
        known = {name: value for name in names if (value := getattr(self, name)) is not None}
        return {**known, "reasons": traceable(self.reasons)} if self.reasons else known


@dataclass(frozen=True, slots=True)
class TerminalResult:
    """The end of a question.

    `body` is the JSON result when answered, else the JSON argument of the failure. `dropped` are
    requests that were sent and are not wanted any more.
    """

    workflow_id: str
    status: WorkflowStatus
    body: Json
    submission: Submission
    dropped: tuple[RequestRef, ...] = ()


class Publisher(Protocol):
    """The way out to Celery."""

    def publish(self, entry: OutboxEntry) -> str | Placement:
        """Send the request's message and return its queue. Raises on any trouble."""
        ...

    def finish(self, terminal: TerminalResult) -> None:
        """Store the root task's result and tell the world. Idempotent; raises on any trouble."""
        ...


class Sender:
    """Publishes outbox entries and confirms them. What fails stays in the outbox."""

    def __init__(self, scripts: Scripts, publisher: Publisher) -> None:
        self._scripts = scripts
        self._publisher = publisher

    def send(self, entries: Iterable[OutboxEntry]) -> int:
        """Publish `entries` (those of one workflow together); how many were sent."""
        reach("after-transition")
        sent = 0
        for workflow_id, group in groupby(entries, key=lambda entry: entry.ref.workflow_id):
            placed = [
                {"node": entry.ref.node_id, "attempt": entry.ref.attempt, **placement.to_json()}
                for entry in group
                if (placement := self._publish(entry)) is not None
            ]
            if placed:
                self._scripts.confirm(workflow_id, placed)
                sent += len(placed)
        return sent

    def finish(self, terminal: TerminalResult) -> bool:
        """Store a terminal result; False when it must be tried again."""
        try:
            self._publisher.finish(terminal)
        except Exception as error:
            # Whatever the broker's client or a result's encoder raises: the entry stays in the
            # outbox and is tried again.
            log.warning(
                "result not stored yet", workflow=terminal.workflow_id, error=_described(error)
            )
            return False
        self._scripts.delivered(terminal.workflow_id)
        return True

    def _publish(self, entry: OutboxEntry) -> Placement | None:
        reach("before-send")
        try:
            placement = self._publisher.publish(entry)
        except Exception as error:
            # As above; besides, the requests behind this one must still be sent.
            log.warning("request not sent yet", request=str(entry.ref), error=_described(error))
            self._keep_why(entry.ref, error)
            return None
        return Placement(placement) if isinstance(placement, str) else placement

    def _keep_why(self, ref: RequestRef, error: Exception) -> None:
        """Keep what a user can mend (nobody can take the request) with the request."""
        if isinstance(error, HexgenError):
            named = {"node": ref.node_id, "attempt": ref.attempt}
            self._scripts.unsent(ref.workflow_id, named, dumps({"error": error.to_json()}))


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
