"""Moving requests away from queues that no ready instance serves any more.

Each is placed anew by the router, as if it had just become ready, and is moved with its new rank
and cost in one script; the ledger follows. A worker that claims it first wins.
"""

from __future__ import annotations

import time

import redis
import structlog

from hexgen_celery.coordination.state import WorkflowStore
from hexgen_celery.eligibility import NoPool
from hexgen_celery.keys import Keys
from hexgen_celery.ledger import Ledger
from hexgen_celery.names import GPU_QUEUES
from hexgen_celery.outbox import Placement
from hexgen_celery.router import LiveRouter
from hexgen_celery.scripts import Scripts
from hexgen_celery.settings import Settings
from hexgen_celery.transport.scripts import QueueScripts
from hexgen_celery.upkeep.waiting import Waiting, WaitingRequests

log = structlog.get_logger(__name__)

AT_ONCE = 200
REPORT_SECONDS = 10.0
# What nobody can take now is looked at again when the cluster has changed, or after so long.
HOPELESS_SECONDS = 5.0


class Rescuer:
    """Call `rescue` again and again; any number of processes may. `binary` answers in bytes;
    `at_once` requests of a queue are looked at in one call."""

    def __init__(
        self,
        client: redis.Redis,
        binary: redis.Redis,
        keys: Keys,
        settings: Settings,
        router: LiveRouter,
        at_once: int = AT_ONCE,
    ) -> None:
        self._at_once = at_once
        self._queues = QueueScripts(binary, keys.queue_root)
        self._scripts = Scripts(client, keys, settings)
        self._ledger = Ledger(client, keys)
        self._waiting = WaitingRequests(self._queues, WorkflowStore(client, keys))
        self._router = router
        self._report_after = 0.0
        self._usable: frozenset[str] = frozenset()
        self._hopeless: set[str] = set()
        self._skip: dict[str, int] = {}
        self._look_after = 0.0

    def rescue(self) -> int:
        """Move what is stranded; how many requests were moved.

        Raises:
            redis.RedisError: Redis is away.
        """
        loads = self._ledger.read().queues
        queues = [
            name for name, load in loads.items() if name.startswith(GPU_QUEUES) and load.waiting
        ]
        if not queues:
            return 0
        usable = frozenset(self._router.usable_queues())
        if usable != self._usable:
            self._skip.clear()
        if usable != self._usable or time.monotonic() >= self._look_after:
            self._hopeless.clear()
        self._usable = usable
        stranded = set(queues) - usable - self._hopeless
        return sum(self._empty(queue) for queue in sorted(stranded))

    def _empty(self, queue: str) -> int:
        """Move what can be moved. Where nothing of so many can, the queue is left alone for a
        while, and those behind them are looked at then: nobody may keep others from being moved."""
        moved = refused = 0
        skip = self._skip.pop(queue, 0)
        for waiting in self._waiting.of(queue, self._at_once, skip):
            try:
                placement = self._router.place(waiting.entry)
            except NoPool as error:
                refused += 1
                self._report(queue, error)
                continue
            moved += self._move(waiting, placement)
        if moved:
            log.info("requests moved to other instances", queue=queue, requests=moved)
        if refused and not moved:
            self._skip[queue] = skip + self._at_once
            self._hopeless.add(queue)
            self._look_after = time.monotonic() + HOPELESS_SECONDS
        return moved

    def _move(self, waiting: Waiting, placement: Placement) -> bool:
        urgency = placement.urgency
        assert urgency is not None, f"{placement.queue} is no queue of LLM requests"
        if not self._queues.redirect(waiting.message.token, placement.queue, urgency):
            return False
        ref = waiting.entry.ref
        sent = {"node": ref.node_id, "attempt": ref.attempt, "moved": True, **placement.to_json()}
        self._scripts.confirm(ref.workflow_id, [sent])
        return True

    def _report(self, queue: str, error: NoPool) -> None:
        if time.monotonic() >= self._report_after:
            self._report_after = time.monotonic() + REPORT_SECONDS
            log.warning("requests wait for an instance", queue=queue, error=str(error))
