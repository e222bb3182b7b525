"""Questions that the store saw begin and that can no longer end, because Redis lost them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import redis
import structlog
from sqlalchemy import Engine, select, update

from hexgen_celery.coordination.state import WorkflowStore
from hexgen_celery.keys import Keys
from hexgen_celery.store.engine import naming_a_lost_store
from hexgen_celery.store.models import Workflow
from hexgen_celery.store.values import LOST

log = structlog.get_logger(__name__)

GRACE_SECONDS = 600.0
"""After its deadline a question has ended, unless Redis or all control workers were away."""
_AT_ONCE = 500


class LostQuestions:
    """Ends in the store what would be running there for ever. An end that comes still wins."""

    def __init__(self, client: redis.Redis, keys: Keys, engine: Engine) -> None:
        self._workflows = WorkflowStore(client, keys)
        self._keys = keys
        self._engine = engine

    def end(self, now: float) -> int:
        """Mark as lost, at their deadlines, the overdue ones that Redis does not know; how many.

        `now` in Unix seconds.

        Raises:
            redis.RedisError: Redis is away.
            StoreUnavailable, StoreOutdated: what was marked until then stays marked.
        """
        return sum(self._mark(self._unknown(names)) for names in self._overdue(now - GRACE_SECONDS))

    def _overdue(self, before: float) -> Iterator[list[str]]:
        """Ids of questions that have not ended, with a deadline before that; in parts."""
        mine = (Workflow.deployment == self._keys.prefix, Workflow.finished_at.is_(None))
        overdue = select(Workflow.id).where(*mine, Workflow.deadline < before)
        last = ""
        while True:
            part = overdue.where(Workflow.id > last).order_by(Workflow.id).limit(_AT_ONCE)
            with naming_a_lost_store(self._engine), self._engine.begin() as connection:
                names = list(connection.execute(part).scalars())
            if not names:
                return
            yield names
            last = names[-1]

    def _unknown(self, names: Sequence[str]) -> list[str]:
        known = self._workflows.existing(names)
        return [name for name in names if name not in known]

    def _mark(self, names: Sequence[str]) -> int:
        if not names:
            return 0
        log.warning("Redis lost questions that were running", count=len(names), workflow=names[0])
        still = (Workflow.id.in_(names), Workflow.finished_at.is_(None))
        lost = update(Workflow).where(*still).values(status=LOST, finished_at=Workflow.deadline)
        with naming_a_lost_store(self._engine), self._engine.begin() as connection:
            return connection.execute(lost).rowcount
