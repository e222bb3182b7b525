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
    instances that can be used: on slower ones, what is left of a question takes longer.

    The `at_once` most urgent requests of a queue are looked at each time; of those behind them as
    many with every call, where the last call left off, until all were.
    """

    def __init__(
        self,
        client: redis.Redis,
        binary: redis.Redis,
        keys: Keys,
        router: LiveRouter,
        at_once: int = AT_ONCE,
    ) -> None:
        self._at_once = at_once
        self._queues = QueueScripts(binary, keys.queue_root)
        self._waiting = WaitingRequests(self._queues, WorkflowStore(client, keys))
        self._ledger = Ledger(client, keys)
        self._router = router
        self._begun_for: tuple[int, frozenset[str]] = (0, frozenset())
        self._left: dict[str, int] = {}
        self._next: dict[str, int] = {}

    def rescore(self) -> int:
        """Give what waits its rank by what is known now; how many ranks changed.

        Raises:
            redis.RedisError: Redis is away.
        """
        self._router.knowledge.refresh()
        version = self._router.knowledge.version
        basis = (version, frozenset(self._router.usable_queues()))
        changed = 0
        if basis != self._begun_for:
            self._left = self._waiting_by_queue()
            self._next = {queue: at for queue, at in self._next.items() if queue in self._left}
            changed = sum(self._begin(queue) for queue in list(self._left))
            self._begun_for = basis
        changed += sum(self._go_on(queue) for queue in list(self._left))
        if changed:
            log.info("requests rescored", requests=changed, estimates=version)
        return changed

    def _waiting_by_queue(self) -> dict[str, int]:
        loads = self._ledger.read().queues.items()
        return {
            name: load.waiting
            for name, load in loads
            if name.startswith(GPU_QUEUES) and load.waiting
        }

    def _begin(self, queue: str) -> int:
        looked_at, changed = self._rescore(queue, 0)
        self._looked_at(queue, looked_at)
        return changed

    def _go_on(self, queue: str) -> int:
        """Those behind the first, from where the last call left off, round and round."""
        skip = self._next.pop(queue, self._at_once)
        looked_at, changed = self._rescore(queue, skip)
        if looked_at == self._at_once:
            self._next[queue] = skip + looked_at
        elif skip == self._at_once:
            # There are no more: others took some since they were counted.
            self._left[queue] = 0
        self._looked_at(queue, looked_at)
        return changed

    def _looked_at(self, queue: str, requests: int) -> None:
        self._left[queue] -= requests
        if self._left[queue] <= 0:
            del self._left[queue]

    def _rescore(self, queue: str, skip: int) -> tuple[int, int]:
        """How many were looked at, and how many of them have another rank now."""
        changed, page = 0, self._waiting.page(queue, self._at_once, skip)
        for waiting in self._waiting.requests(page):
            before = waiting.message.urgency
            after = self._router.reconsidered(waiting.entry, before)
            if _differs(before, after):
                changed += self._queues.rescore(
                    waiting.message.token, after.key, after.feasible_until
                )
        return len(page), changed


def _differs(before: Urgency, after: Urgency) -> bool:
    pairs = ((before.key, after.key), (before.feasible_until, after.feasible_until))
    return any(one != other and abs(one - other) > WORTH_SECONDS for one, other in pairs)
