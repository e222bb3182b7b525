"""Where questions wait to be accepted, as a client sees it."""

from __future__ import annotations

import time
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
        while not (self._waits(workflow_id) or self._workflows.exists(workflow_id)):
            if time.monotonic() >= until:
                return False
            time.sleep(LOOK_SECONDS)
        return True

    def unaccepted(self) -> int:
        """How many questions wait to be accepted."""
        return sum(int(self._redis.llen(queue)) for queue in ENTRANCES)

    def _waits(self, workflow_id: str) -> bool:
        lists = (self._redis.lrange(queue, 0, -1) for queue in ENTRANCES)
        messages = (message for each in lists for message in cast("list[str]", each))
        return any(workflow_id in message for message in messages)
