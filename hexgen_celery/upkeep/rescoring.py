"""Letting the order of waiting requests follow new estimates."""

from __future__ import annotations

import redis
import structlog

from hexgen_celery.coordination.state import WorkflowStore
from hexgen_celery.keys import Keys
from hexgen_celery.ledger import Ledger
from hexgen_celery.names import GPU_QUEUES
from hexgen_celery.router import LiveRouter
from hexgen_celery.transport.messages import Urgency
from hexgen_celery.transport.scripts import QueueScripts
from hexgen_celery.upkeep.waiting import WaitingRequests

log = structlog.get_logger(__name__)

AT_ONCE = 200
# A change of rank below this many seconds is not worth a write.
WORTH_SECONDS = 0.05


class Rescorer:
    """Call `rescore` again and again; it does nothing until the estimates have changed, or the
    instances that can be used: on slower ones, what is left of a question takes longer."""

    def __init__(
        self, client: redis.Redis, binary: redis.Redis, keys: Keys, router: LiveRouter
    ) -> None:
        self._queues = QueueScripts(binary, keys.queue_root)
        self._waiting = WaitingRequests(self._queues, WorkflowStore(client, keys))
        self._ledger = Ledger(client, keys)
        self._router = router
        self._done_for: tuple[int, frozenset[str]] = (0, frozenset())

    def rescore(self) -> int:
        """Give what waits its rank by what is known now; how many ranks changed.

        Raises:
            redis.RedisError: Redis is away.
        """
        self._router.knowledge.refresh()
        version = self._router.knowledge.version
        basis = (version, frozenset(self._router.usable_queues()))
        if basis == self._done_for:
            return 0
        loads = self._ledger.read().queues
        changed = sum(
            self._rescore(name)
            for name, load in loads.items()
            if name.startswith(GPU_QUEUES) and load.waiting
        )
        self._done_for = basis
        if changed:
            log.info("requests rescored", requests=changed, estimates=version)
        return changed

    def _rescore(self, queue: str) -> int:
        changed = 0
        for waiting in self._waiting.of(queue, AT_ONCE):
            before = waiting.message.urgency
            after = self._router.reconsidered(waiting.entry, before)
            if _differs(before, after):
                changed += self._queues.rescore(
                    waiting.message.token, after.key, after.feasible_until
                )
        return changed


def _differs(before: Urgency, after: Urgency) -> bool:
    pairs = ((before.key, after.key), (before.feasible_until, after.feasible_until))
    return any(one != other and abs(one - other) > WORTH_SECONDS for one, other in pairs)
