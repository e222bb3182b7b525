"""Rows into the store: idempotent, many questions in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Table, func
from sqlalchemy.dialects import postgresql, sqlite

from hexgen_celery.store.engine import naming_a_lost_store
from hexgen_celery.store.models import (
    Base,
    Candidate,
    Decision,
    Execution,
    Request,
    Tenant,
    Workflow,
)
from hexgen_celery.store.records import QuestionRows, Row

_ORDER: tuple[type[Base], ...] = (Workflow, Request, Execution, Candidate, Decision, Tenant)
_INSERTS: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_END_ONLY = ("status", "finished_at")


class StoreWriter:
    """Writes questions. Writing one again, whole, changes nothing but `recorded_at`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def write(self, questions: Sequence[QuestionRows]) -> int:
        """Write all of them or none; how many rows that were.

        Raises:
            StoreUnavailable: the store is away; nothing was written.
            StoreOutdated: its tables are not this version's.
            SQLAlchemyError: a value cannot be stored.
        """
        whole = {each.workflow_id: each for each in questions if each.whole}
        partly = [each for each in questions if each.workflow_id not in whole]
        with naming_a_lost_store(self._engine), self._engine.begin() as connection:
            for table in _ORDER:
                rows = [row for each in whole.values() for row in each.rows.get(table, ())]
                upsert(connection, table, rows)
            _write_partly(connection, partly)
        return sum(each.count for each in (*whole.values(), *partly))


def upsert(
    connection: Connection,
    model: type[Base],
    rows: Sequence[Row],
    update: Iterable[str] | None = None,
) -> None:
    """Insert `rows`; where a key is there already the columns in `update` (None: all) change."""
    if not rows:
        return
    table = model.__table__
    assert isinstance(table, Table)
    keys = [column.name for column in table.primary_key]
    by_key = {tuple(row[name] for name in keys): row for row in rows}
    insert = _INSERTS[connection.dialect.name](table)
    names = [column.name for column in table.columns if column.name not in keys]
    values = _merged(model, insert) or {
        name: insert.excluded[name] for name in (names if update is None else update)
    }
    statement = (
        insert.on_conflict_do_update(index_elements=keys, set_=values)
        if values
        else insert.on_conflict_do_nothing(index_elements=keys)
    )
    connection.execute(statement, [by_key[key] for key in sorted(by_key)])


def _merged(model: type[Base], insert: Any) -> Mapping[str, Any]:
    """How a tenant that is known already changes; empty for all else."""
    if model is not Tenant:
        return {}
    new, least, most = insert.excluded, *_extremes(insert)
    return {
        "first_seen_at": least(Tenant.first_seen_at, new.first_seen_at),
        "last_seen_at": most(Tenant.last_seen_at, new.last_seen_at),
    }


def _extremes(insert: Any) -> tuple[Any, Any]:
    """The functions for the lesser and the greater of two values."""
    if isinstance(insert, sqlite.Insert):
        return func.min, func.max
    return func.least, func.greatest


def _write_partly(connection: Connection, questions: Sequence[QuestionRows]) -> None:
    """Beginnings never overwrite what is there; an end of which no more is known, only as such."""
    rows = [row for each in questions for row in each.rows[Workflow]]
    upsert(connection, Workflow, [row for row in rows if row["finished_at"] is None], update=())
    ends = [row for row in rows if row["finished_at"] is not None]
    upsert(connection, Workflow, ends, update=_END_ONLY)
