"""The coordinator's way out to Celery: stage messages, terminal results, the root task's end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog
from celery import Celery, states
from celery.exceptions import TaskRevokedError
from celery.utils.nodenames import anon_nodename
from celery.utils.saferepr import saferepr

from hexgen_celery.eligibility import NoPool
from hexgen_celery.errors import QuestionFailed
from hexgen_celery.events import send_event
from hexgen_celery.follow_ups import follow
from hexgen_celery.outbox import OutboxEntry, Placement, TerminalResult
from hexgen_celery.router import LiveRouter
from hexgen_celery.workflows.definition import WorkflowStatus

log = structlog.get_logger(__name__)

REPR_CHARACTERS = 1024


Withdraw = Callable[[Sequence[str]], object]


def leave_to_the_claim(_task_ids: Sequence[str]) -> None:
    """A message that is not wanted any more is met by its claim at the latest."""


class CeleryPublisher:
    """Publishes over the application's pooled connections; safe from many threads.

    `worker` is the Celery node name that events about finished questions come from. `withdraw`
    takes the messages with these Celery ids out of their queues, as far as they still wait.
    """

    def __init__(
        self,
        app: Celery,
        router: LiveRouter,
        worker: str = "",
        *,
        withdraw: Withdraw = leave_to_the_claim,
    ) -> None:
        self._app = app
        self._router = router
        self._worker = worker or anon_nodename()
        self._withdraw = withdraw

    def publish(self, entry: OutboxEntry) -> Placement:
        """Send the request to the queue that the router chooses.

        Raises:
            NoPool: nothing can take it now.
            kombu.exceptions.OperationalError: the broker cannot be reached.
        """
        root = entry.ref.workflow_id
        with self._router.deciding(entry) as decision:
            self._app.send_task(
                entry.task,
                kwargs=entry.kwargs,
                task_id=entry.task_id,
                root_id=root,
                parent_id=root,
                ignore_result=True,
            )
        if decision.placement is None:
            raise NoPool(f"{entry.task} was not routed", hint="install the router with use_route")
        return decision.placement

    def finish(self, terminal: TerminalResult) -> None:
        """Store what the client's `.get()` returns or raises, send what it wants to follow, and end
        the root task's events."""
        result, state = _stored(terminal)
        self._app.backend.store_result(terminal.workflow_id, result, state)
        if terminal.dropped:
            self._withdraw([str(ref) for ref in terminal.dropped])
        follow(self._app, terminal.workflow_id, terminal.submission.follow_ups, result, state)
        self._send_end(terminal)
        log.info("result stored", workflow=terminal.workflow_id, status=str(terminal.status))

    def _send_end(self, terminal: TerminalResult) -> None:
        uuid = terminal.workflow_id
        if terminal.status is WorkflowStatus.ANSWERED:
            fields = {
                "result": saferepr(terminal.body, REPR_CHARACTERS),
                "runtime": terminal.body["latency_seconds"],
            }
            send_event(self._app, self._worker, "task-succeeded", uuid=uuid, **fields)
        elif terminal.status is WorkflowStatus.CANCELLED:
            how = {"terminated": False, "signum": None, "expired": False}
            send_event(self._app, self._worker, "task-revoked", uuid=uuid, **how)
        else:
            error = saferepr(QuestionFailed(terminal.body), REPR_CHARACTERS)
            send_event(
                self._app, self._worker, "task-failed", uuid=uuid, exception=error, traceback=""
            )


def _stored(terminal: TerminalResult) -> tuple[object, str]:
    if terminal.status is WorkflowStatus.ANSWERED:
        return terminal.body, states.SUCCESS
    if terminal.status is WorkflowStatus.CANCELLED:
        cause = str(terminal.body.get("cause") or "cancelled")
        return TaskRevokedError(cause), states.REVOKED
    return QuestionFailed(terminal.body), states.FAILURE
