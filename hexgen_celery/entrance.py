"""Where questions wait to be accepted, as a client sees it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import cast

import redis

from hexgen_celery.coordination.state import WorkflowStore
from hexgen_celery.names import ASK_QUEUE, DEFAULT_QUEUE

ENTRANCES = (ASK_QUEUE, DEFAULT_QUEUE)
"""Celery clients without our routes use its default queue."""

ACCEPTANCE_SECONDS = 1.0
LOOK_SECONDS = 0.02


class Entrance:
    """The queues of `hexgen.ask`."""

    def __init__(self, client: redis.Redis, workflows: WorkflowStore) -> None:
        self._redis = client
        self._workflows = workflows

    def awaits(self, workflow_id: str) -> bool:
        """Whether the question has begun meanwhile, or waits to be accepted.

        While a control worker accepts it, it is neither: hence more than one look.
        """
        until = time.monotonic() + ACCEPTANCE_SECONDS
        while not self.known([workflow_id]):
            if time.monotonic() >= until:
                return False
            time.sleep(LOOK_SECONDS)
        return True

    def known(self, workflow_ids: Iterable[str]) -> set[str]:
        """Those of them that have begun, or wait to be accepted at this moment."""
        names = list(workflow_ids)
        begun = self._workflows.existing(names)
        absent = [name for name in names if name not in begun]
        return begun | self._waiting(absent) if absent else begun

    def unaccepted(self) -> int:
        """How many questions wait to be accepted."""
        return sum(int(self._redis.llen(queue)) for queue in ENTRANCES)

    def _waiting(self, workflow_ids: list[str]) -> set[str]:
        lists = (self._redis.lrange(queue, 0, -1) for queue in ENTRANCES)
        messages = [message for each in lists for message in cast("list[str]", each)]
        return {name for name in workflow_ids if any(name in message for message in messages)}
