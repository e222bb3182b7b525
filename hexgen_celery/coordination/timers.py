"""What control workers do on a timer: expire, give lost requests another attempt, send again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import redis
import structlog

from hexgen_celery.coordination.state import WorkflowRecord, WorkflowStore
from hexgen_celery.coordination.transitions import Transitions
from hexgen_celery.ledger import Ledger
from hexgen_celery.references import RequestRef
from hexgen_celery.scripts import Scripts
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.definition import Json, NodeStatus

log = structlog.get_logger(__name__)

Due = TypeVar("Due")
Backlog = Callable[[str], int | None]


def unknown_backlog(_queue: str) -> int | None:
    """The backlog of a broker that cannot be asked."""
    return None


@dataclass(frozen=True, slots=True)
class TickReport:
    """What one tick did: questions ended at their deadline, attempts lost, messages and results
    sent again."""

    expired: int = 0
    lost: int = 0
    resent: int = 0
    delivered: int = 0

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do."""
        return self == TickReport()


class Timers:
    """One tick at a time; any number of control workers may tick at once.

    `backlog` tells how many messages the broker holds in a queue. While that is no less than the
    ledger says is waiting there, a request that waits long is late, not lost, and is left alone.
    """

    def __init__(
        self,
        scripts: Scripts,
        store: WorkflowStore,
        transitions: Transitions,
        ledger: Ledger,
        settings: Settings,
        backlog: Backlog = unknown_backlog,
    ) -> None:
        self._scripts = scripts
        self._store = store
        self._transitions = transitions
        self._ledger = ledger
        self._best_effort = settings.deadline.policy == "best-effort"
        self._backlog = backlog

    def tick(self) -> TickReport:
        """Do what is due. One round trip when nothing is.

        Raises:
            redis.RedisError: Redis is away; everything due stays due.
        """
        due = self._scripts.due()
        expired = _each(self._expire, due.expired)
        lost = _each(self._give_up, due.lost)
        ended, waiting = _sorted_out(due.entries)
        delivered = _each(self._transitions.deliver, ended)
        resent = _each(self._resend, waiting.items())
        return TickReport(expired, lost, resent, delivered)

    def _expire(self, workflow_id: str) -> bool:
        expired = self._transitions.expire(workflow_id, best_effort=self._best_effort)
        return expired or self._forget_if_gone(workflow_id, workflow_id)

    def _give_up(self, member: str) -> bool:
        ref = RequestRef.parse(member)
        lost = self._transitions.fail(ref, _lease_lost(), retryable=True, lost=True)
        return lost or self._forget_if_gone(ref.workflow_id, member)

    def _resend(self, due: tuple[str, list[RequestRef]]) -> int:
        workflow_id, refs = due
        record = self._store.load(workflow_id)
        if record is None:
            self._scripts.forget(map(str, refs))
            return 0
        wanted = [ref for ref in refs if _is_waiting(record, ref)]
        late = [ref for ref in wanted if self._is_merely_late(record, ref)]
        self._scripts.postpone([str(ref) for ref in late])
        return self._transitions.resend(record, (ref for ref in wanted if ref not in late))

    def _is_merely_late(self, record: WorkflowRecord, ref: RequestRef) -> bool:
        """Whether a queued request still waits in its queue, as far as the broker can tell."""
        node = record.nodes[ref.node_id]
        if node.status is not NodeStatus.QUEUED:
            return False
        queue = str(node.record["queue"])
        backlog = self._backlog(queue)
        return backlog is not None and backlog >= self._ledger.read().queue(queue).waiting

    def _forget_if_gone(self, workflow_id: str, member: str) -> bool:
        if not self._store.exists(workflow_id):
            self._scripts.forget([member])
        return False


def _each(action: Callable[[Due], int], due: Iterable[Due]) -> int:
    """The sum of `action` over all that is due; one of them must not keep the others from it."""
    total = 0
    for item in due:
        try:
            total += action(item)
        except redis.RedisError:
            raise
        except Exception:
            # Such as a record that cannot be read: it stays due and is logged again, which costs
            # less than all questions behind it missing their deadlines.
            log.exception("a due transition failed", item=str(item))
    return total


def _sorted_out(entries: Iterable[str]) -> tuple[list[str], dict[str, list[RequestRef]]]:
    """Workflows whose result waits to be stored, and requests that wait to be sent, by workflow."""
    ended: list[str] = []
    waiting: dict[str, list[RequestRef]] = {}
    for name in entries:
        if "/" in name:
            ref = RequestRef.parse(name)
            waiting.setdefault(ref.workflow_id, []).append(ref)
        else:
            ended.append(name)
    return ended, waiting


def _is_waiting(record: WorkflowRecord, ref: RequestRef) -> bool:
    node = record.nodes.get(ref.node_id)
    waits = node is not None and node.status in (NodeStatus.READY, NodeStatus.QUEUED)
    return node is not None and waits and node.attempt == ref.attempt


def _lease_lost() -> Json:
    return {
        "code": "lease_lost",
        "message": "the worker stopped renewing its lease",
        "hint": "see the worker's log; it died, or lost Redis for longer than the lease",
    }
