"""The coordinator: the one object through which processes move questions.

It is a library, not a server: whoever completes a request runs the transition, so that any process
may die. All state is in Redis; see `lua/lib/workflow.lua` for its layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import redis
import structlog

from hexgen_celery.coordination.planner import Planner
from hexgen_celery.coordination.reports import workflow_report
from hexgen_celery.coordination.state import WorkflowRecord, WorkflowStore
from hexgen_celery.coordination.timers import Backlog, TickReport, Timers, unknown_backlog
from hexgen_celery.coordination.transitions import Defer, Transitions, at_once
from hexgen_celery.core.clock import Clock, WallClock
from hexgen_celery.errors import UnknownWorkflow
from hexgen_celery.keys import Keys
from hexgen_celery.ledger import Ledger, LedgerView, Load
from hexgen_celery.outbox import Publisher, Sender
from hexgen_celery.parts import PartStore
from hexgen_celery.references import ClaimedRequest, RequestRef
from hexgen_celery.scripts import Scripts
from hexgen_celery.settings import Settings
from hexgen_celery.trace import TraceReader
from hexgen_celery.workflows.definition import Definition, Json, Submission

log = structlog.get_logger(__name__)


class Coordinator:
    """Starts, claims, completes, fails, cancels and times questions. Thread-safe.

    `redis` must decode its answers (`redis_client.connect` makes such a client). Every method may
    raise `redis.RedisError`; calling it again is always safe. `backlog` tells how many messages a
    queue of the broker holds, None where that is not known.
    """

    def __init__(
        self,
        redis: redis.Redis,
        keys: Keys,
        settings: Settings,
        definitions: Mapping[str, Definition],
        publisher: Publisher,
        clock: Clock | None = None,
        *,
        backlog: Backlog = unknown_backlog,
    ) -> None:
        clock = clock or WallClock()
        self._scripts = Scripts(redis, keys, settings)
        self._store = WorkflowStore(redis, keys)
        self._ledger = Ledger(redis, keys)
        self._trace = TraceReader(redis, keys)
        self._transitions = Transitions(
            self._scripts,
            self._store,
            PartStore(redis, keys),
            Planner(definitions, clock),
            Sender(self._scripts, publisher),
            settings,
            clock,
        )
        self._timers = Timers(
            self._scripts, self._store, self._transitions, self._ledger, settings, backlog
        )

    def start(self, submission: Submission, later: Defer = at_once) -> None:
        """Begin a question and send its first requests. Starting one twice changes nothing.

        The question is stored on return. `later` may put off the sending; where that never happens
        the outbox is sent by the next tick that finds it due.

        Raises:
            InvalidSubmission: its workflow is unknown or refuses its options; nothing was stored.
        """
        self._transitions.start(submission, later)

    def claim(
        self, ref: RequestRef, *, worker: str, instance: str = "", queue: str = ""
    ) -> ClaimedRequest | None:
        """Take a request whose message has arrived, under a lease that `renew` extends.

        None when the message is stale, doubled, cancelled or past its deadline: acknowledge it and
        do nothing.
        """
        return self._transitions.claim(ref, worker, instance, queue)

    def renew(self, worker: str, refs: Iterable[RequestRef]) -> list[RequestRef]:
        """Extend the leases of what `worker` runs; returns those that must stop now."""
        held = list(refs)
        stopped = [held[index] for index in self._scripts.renew([str(ref) for ref in held])]
        if stopped:
            log.info("requests must stop", worker=worker, requests=[str(ref) for ref in stopped])
        return stopped

    def first_token(self, ref: RequestRef) -> None:
        """The request's prompt is computed: its prefill leaves the ledger."""
        self._transitions.first_token(ref)

    def complete(self, ref: RequestRef, result: Json, bulk: Json | None = None) -> None:
        """The request is done; what its workflow does next happens in the same step and is sent.

        `result` is kept with the node and seen by definitions; `bulk` (`columns`, `rows`,
        `truncated`) only by the answer that takes its rows from this node. Too late to count (the
        node or its question has ended) is no error.
        """
        self._transitions.complete(ref, result, bulk)

    def fail(self, ref: RequestRef, error: Json, *, retryable: bool) -> None:
        """The attempt ended without a result; `error` has `code`, `message`, `hint`.

        A retryable one gets another attempt, through the router, up to `coordinator.max_attempts`;
        else the node has failed and its workflow decides what follows.
        """
        self._transitions.fail(ref, error, retryable=retryable)

    def hand_back(self, ref: RequestRef, error: Json) -> None:
        """The attempt was stopped for a reason that is not its own, such as its worker's shutdown.

        It gets another one, through the router, also beyond `coordinator.max_attempts`: restarting
        workers, however often, fails no question by itself.
        """
        self._transitions.hand_back(ref, error)

    def cancel(self, workflow_id: str, reason: str = "cancelled") -> bool:
        """End a question at once; its running requests are told to stop.

        False when it has ended already, or has not begun: then it ends as cancelled when it begins.
        """
        return self._transitions.cancel(workflow_id, reason)

    def tick(self) -> TickReport:
        """Do what is due: deadlines, lost leases, unconfirmed messages, results not yet stored.

        Control workers call it every `coordinator.tick_seconds`; any number of them may.
        """
        return self._timers.tick()

    def status(self, workflow_id: str) -> Json:
        """Where a question stands, with all of its nodes.

        Raises:
            UnknownWorkflow: no such question is known (any more).
        """
        return workflow_report(self.record(workflow_id))

    def record(self, workflow_id: str) -> WorkflowRecord:
        """The question's whole state.

        Raises:
            UnknownWorkflow: no such question is known (any more).
        """
        record = self._store.load(workflow_id)
        if record is None:
            raise _unknown(workflow_id)
        return record

    def trace(self, workflow_id: str) -> list[Json]:
        """What happened to a question, oldest first.

        Raises:
            UnknownWorkflow: no such question is known (any more).
        """
        events = self._trace.of(workflow_id)
        if not events:
            raise _unknown(workflow_id)
        return events

    def load(self) -> LedgerView:
        """The load of every queue and instance."""
        return self._ledger.read()

    def queues(self) -> Mapping[str, Load]:
        """The load of every queue that is not idle."""
        return self.load().queues


def _unknown(workflow_id: str) -> UnknownWorkflow:
    return UnknownWorkflow(
        f"no question {workflow_id!r} is known",
        field="workflow_id",
        hint="it never began, or its result has expired (broker.result_ttl_seconds)",
    )
