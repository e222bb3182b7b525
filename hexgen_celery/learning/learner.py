"""Learning from the trace stream, in whichever control worker holds the learner's lease."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast

import redis
import structlog

from hexgen_celery.coordination.state import WorkflowStore
from hexgen_celery.core.estimates import Estimate
from hexgen_celery.keys import Keys
from hexgen_celery.learning.knowledge import Knowledge
from hexgen_celery.learning.lessons import question_lesson
from hexgen_celery.learning.store import KnowledgeStore
from hexgen_celery.trace import OLDEST, StreamEvent, TraceReader

log = structlog.get_logger(__name__)

LEASE_MS = 10_000
SAVE_SECONDS = 2.0
# Saving may take this share of one process's time.
SAVE_SHARE = 0.05
BATCH = 1000
BATCHES_AT_ONCE = 20


class Learner:
    """Call `learn` again and again. One process learns at a time; another takes over from what it
    saved last when it is gone. `on_prediction` is told what an estimate was about, the estimate and
    the truth, as soon as that is known."""

    def __init__(
        self,
        client: redis.Redis,
        keys: Keys,
        name: str,
        on_prediction: Callable[[str, Estimate, float], object] | None = None,
    ) -> None:
        self._client = client
        self._lease = keys.learner
        self._name = name
        self._on_prediction = on_prediction
        self._trace = TraceReader(client, keys)
        self._workflows = WorkflowStore(client, keys)
        self._store = KnowledgeStore(client, keys)
        self._known: Knowledge | None = None
        self._read = OLDEST
        self._unsaved = False
        self._save_after = 0.0

    def learn(self) -> int:
        """Learn from what finished since the last call; how many questions that were.

        Raises:
            redis.RedisError: Redis is away; nothing is lost.
        """
        if not self._holds_lease():
            self._known = None
            return 0
        if self._known is None:
            self._known, self._read = self._store.load()
        learnt = self._learn_all_new(self._known)
        self._unsaved = self._unsaved or learnt > 0
        if self._unsaved and time.monotonic() >= self._save_after:
            self._save(self._known)
        return learnt

    def _holds_lease(self) -> bool:
        if self._client.set(self._lease, self._name, nx=True, px=LEASE_MS):
            return True
        if cast("str | None", self._client.get(self._lease)) != self._name:
            return False
        return bool(self._client.pexpire(self._lease, LEASE_MS))

    def _learn_all_new(self, known: Knowledge) -> int:
        learnt = 0
        for _ in range(BATCHES_AT_ONCE):
            events = self._trace.after(self._read, BATCH)
            for event in events:
                learnt += self._learn_from(event, known)
                self._read = event.id
            if len(events) < BATCH:
                break
        return learnt

    def _learn_from(self, event: StreamEvent, known: Knowledge) -> int:
        if event.event.get("event") != "finished":
            return 0
        workflow_id = str(event.event["workflow"])
        try:
            record = self._workflows.load(workflow_id)
            if record is None:
                return 0
            known.learn(question_lesson(record, self._trace.of(workflow_id)), self._on_prediction)
        except (KeyError, TypeError, ValueError):
            # One odd record (of another version, say) must not end all learning.
            log.exception("nothing learnt from a question", workflow=workflow_id)
            return 0
        return 1

    def _save(self, known: Knowledge) -> None:
        began = time.monotonic()
        self._store.save(known, self._read)
        took = time.monotonic() - began
        self._unsaved = False
        self._save_after = began + max(SAVE_SECONDS, took / SAVE_SHARE)
