"""How long rows stay: each table its own days, deleted in small transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Table, delete, false, func, select, tuple_, update
from sqlalchemy import case as sql_case

from hexgen_celery.settings import StoreSettings
from hexgen_celery.store.choices import last_choices
from hexgen_celery.store.engine import naming_a_lost_store
from hexgen_celery.store.models import (
    AlphaChange,
    Base,
    Candidate,
    Decision,
    Execution,
    Request,
    Tenant,
    Workflow,
)
from hexgen_celery.store.records import tenant_key
from hexgen_celery.store.values import NOT_COUNTED
from hexgen_celery.store.writing import upsert

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Retention:
    """Days that each table's rows are kept, and how many rows one transaction deletes."""

    days: Mapping[type[Base], float]
    rows: int

    @classmethod
    def of(cls, settings: StoreSettings) -> Retention:
        """As configured. Questions come last: what belongs to them goes with them."""
        days: dict[type[Base], float] = {
            Decision: settings.keep_decisions_days,
            Request: settings.keep_requests_days,
            Execution: settings.keep_executions_days,
            Candidate: settings.keep_candidates_days,
            AlphaChange: settings.keep_alpha_days,
            Workflow: settings.keep_workflows_days,
        }
        return cls(days, settings.prune_rows)


class Pruner:
    """Deletes what is older than it may be. Any number may prune at once."""

    def __init__(self, engine: Engine, retention: Retention) -> None:
        self._engine = engine
        self._retention = retention

    def prune(self, now: float) -> dict[str, int]:
        """Delete all that is too old at `now` (Unix seconds); how many rows of each table.

        A question that has not ended, as far as the store knows, is kept like every other.

        Raises:
            StoreUnavailable, StoreOutdated: what was deleted until then stays deleted.
        """
        deleted = {}
        for model, days in self._retention.days.items():
            before = now - days * DAY_SECONDS
            total = 0
            while count := self._prune_some(model, before):
                total += count
            deleted[model.__tablename__] = total
        return deleted

    def _prune_some(self, model: type[Base], before: float) -> int:
        with naming_a_lost_store(self._engine), self._engine.begin() as connection:
            if model is Workflow:
                return _prune_questions(connection, before, self._retention.rows)
            return _delete_oldest(connection, model, before, self._retention.rows)


def _delete_oldest(connection: Connection, model: type[Base], before: float, rows: int) -> int:
    table = model.__table__
    assert isinstance(table, Table)
    time = table.c.at if "at" in table.c else table.c.submitted_at
    keys = list(table.primary_key)
    oldest = select(*keys).where(time < before).order_by(time).limit(rows)
    if model is AlphaChange:
        # Without its row a policy in force would be written again, as set by an operator now.
        held = last_choices(*keys).where(AlphaChange.policy != "")
        oldest = oldest.where(tuple_(*keys).not_in(held))
    return connection.execute(delete(table).where(tuple_(*keys).in_(oldest))).rowcount


def _prune_questions(connection: Connection, before: float, rows: int) -> int:
    """Delete questions with all that is theirs, and count them with their tenants."""
    oldest = (
        select(Workflow.id)
        .where(Workflow.submitted_at < before)
        .order_by(Workflow.submitted_at)
        .limit(rows)
        .with_for_update(skip_locked=True)
    )
    names = list(connection.execute(oldest).scalars())
    if names:
        _count_with_tenants(connection, names)
        connection.execute(delete(Workflow).where(Workflow.id.in_(names)))
    return len(names)


def _count_with_tenants(connection: Connection, names: list[str]) -> None:
    ended = func.sum(sql_case((Workflow.status.not_in(NOT_COUNTED), 1), else_=0))
    answered = func.sum(sql_case((Workflow.status == "answered", 1), else_=0))
    met = func.sum(sql_case((Workflow.deadline_met != false(), 1), else_=0))
    group = (Workflow.deployment, Workflow.tenant, Workflow.slo_class)
    span = (func.min(Workflow.submitted_at), func.max(Workflow.submitted_at))
    counted = select(*group, ended, answered, met, *span)
    for row in connection.execute(counted.where(Workflow.id.in_(names)).group_by(*group)):
        deployment, tenant, slo_class, questions, answers, in_time, first, last = row
        key = {"deployment": deployment, **tenant_key(tenant, slo_class)}
        seen = {"first_seen_at": first, "last_seen_at": last}
        upsert(connection, Tenant, [{**key, **seen, **dict.fromkeys(_PRUNED, 0)}])
        sums = zip(_PRUNED, (questions, answers, in_time), strict=True)
        added: dict[str, Any] = {name: getattr(Tenant, name) + int(n) for name, n in sums}
        chosen = [getattr(Tenant, name) == value for name, value in key.items()]
        connection.execute(update(Tenant).where(*chosen).values(**added))


_PRUNED = ("pruned_questions", "pruned_answered", "pruned_met")
