"""What the store knows, for those whom Redis cannot tell any more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, case, false, func, select

from hexgen_celery.store.engine import naming_a_lost_store, place_of, sqlite_file
from hexgen_celery.store.events import stored_events
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
from hexgen_celery.store.values import NOT_COUNTED
from hexgen_celery.workflows.definition import Json

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """A question with all of its rows, by the columns of `models`."""

    workflow: Row
    requests: tuple[Row, ...]
    executions: tuple[Row, ...]
    candidates: tuple[Row, ...]
    decisions: tuple[Row, ...]

    @property
    def events(self) -> list[Json]:
        """What happened to it, oldest first."""
        return stored_events(self.workflow, self.requests, self.executions, self.decisions)


@dataclass(frozen=True, slots=True)
class TenantTotal:
    """All questions that a tenant ever asked in a class, those that are pruned included."""

    tenant: str
    slo_class: str
    questions: int
    answered: int
    met: int
    last_seen_at: float


class StoreReader:
    """Reads. Every method raises StoreUnavailable or StoreOutdated where the store cannot."""

    def __init__(self, engine: Engine, deployment: str) -> None:
        self._engine = engine
        self._deployment = deployment

    @property
    def place(self) -> str:
        """Where the store is, for a reader."""
        return place_of(self._engine.url)

    @property
    def exists(self) -> bool:
        """False where the SQLite file was never made."""
        file = sqlite_file(self._engine.url)
        return file is None or file.exists()

    def question(self, workflow_id: str) -> StoredQuestion | None:
        """The question, or None when it was never recorded, or was pruned."""
        if not self.exists:
            return None
        with naming_a_lost_store(self._engine), self._engine.connect() as connection:
            found = _rows(connection, Workflow, [workflow_id])
            if not found:
                return None
            return _assembled(connection, found)[0]

    def answered(
        self, *, since: float = 0.0, limit: int | None = None, before: float | None = None
    ) -> list[StoredQuestion]:
        """The last `limit` answered questions that ended after `since`, and before `before`.

        The newest first; times in Unix seconds.
        """
        if not self.exists:
            return []
        ended = Workflow.finished_at
        chosen = [Workflow.deployment == self._deployment, Workflow.status == "answered"]
        chosen += [ended > since, Workflow.complete != false()]
        if before is not None:
            chosen.append(ended < before)
        table = Workflow.__table__
        statement = select(table).where(*chosen).order_by(ended.desc()).limit(limit)
        with naming_a_lost_store(self._engine), self._engine.connect() as connection:
            found = [dict(row._mapping) for row in connection.execute(statement)]
            return [each for part in _parts(found) for each in _assembled(connection, part)]

    def recent(self, limit: int) -> list[Row]:
        """The questions that ended last, newest first, without what belongs to them."""
        if not self.exists:
            return []
        table, ended = Workflow.__table__, Workflow.finished_at
        mine = (Workflow.deployment == self._deployment, ended.is_not(None))
        statement = select(table).where(*mine).order_by(ended.desc()).limit(limit)
        return self._all(statement)

    def tenants(self) -> list[TenantTotal]:
        """Questions and met deadlines by tenant and class, since recording began."""
        if not self.exists:
            return []
        ours = Workflow.deployment == self._deployment
        ended = Workflow.status.not_in(NOT_COUNTED)
        group = (Workflow.tenant, Workflow.slo_class)
        sums = (
            func.count(),
            func.sum(case((Workflow.status == "answered", 1), else_=0)),
            func.sum(case((Workflow.deadline_met != false(), 1), else_=0)),
        )
        with naming_a_lost_store(self._engine), self._engine.connect() as connection:
            live = connection.execute(select(*group, *sums).where(ours, ended).group_by(*group))
            counted = {(row[0], row[1]): [int(n) for n in row[2:]] for row in live}
            table = Tenant.__table__
            known = select(table).where(Tenant.deployment == self._deployment)
            rows = [dict(row._mapping) for row in connection.execute(known)]
        return [
            _total(row, counted.get((row["name"], row["slo_class"]), [0, 0, 0])) for row in rows
        ]

    def alpha(self, limit: int = 20) -> list[Row]:
        """The last changes of the dispatch policy, newest first."""
        if not self.exists:
            return []
        table = AlphaChange.__table__
        mine = AlphaChange.deployment == self._deployment
        return self._all(select(table).where(mine).order_by(AlphaChange.at.desc()).limit(limit))

    def counts(self) -> dict[str, int]:
        """Rows of each table."""
        with naming_a_lost_store(self._engine), self._engine.connect() as connection:
            return {
                name: int(connection.execute(select(func.count()).select_from(table)).scalar_one())
                for name, table in Base.metadata.tables.items()
            }

    def _all(self, statement: Any) -> list[Row]:
        with naming_a_lost_store(self._engine), self._engine.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(statement)]


_AT_ONCE = 200


def _parts(rows: list[Row]) -> Iterable[list[Row]]:
    return (rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE))


def _assembled(connection: Connection, workflows: list[Row]) -> list[StoredQuestion]:
    names = [row["id"] for row in workflows]
    tables = (Request, Execution, Candidate, Decision)
    grouped = [_by_question(_rows(connection, table, names)) for table in tables]
    return [
        StoredQuestion(row, *(group.get(row["id"], ()) for group in grouped)) for row in workflows
    ]


def _by_question(rows: list[Row]) -> dict[str, tuple[Row, ...]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["workflow_id"], []).append(row)
    return {name: tuple(group) for name, group in groups.items()}


def _rows(connection: Connection, model: type[Base], names: list[str]) -> list[Row]:
    """The rows of these questions, in the order of their keys."""
    table = model.__table__
    key = table.c.id if model is Workflow else table.c.workflow_id
    order = list(table.primary_key)
    statement = select(table).where(key.in_(names)).order_by(*order)
    return [dict(row._mapping) for row in connection.execute(statement)]


def _total(row: Row, live: list[int]) -> TenantTotal:
    pruned = (row["pruned_questions"], row["pruned_answered"], row["pruned_met"])
    questions, answered, met = (int(a) + b for a, b in zip(pruned, live, strict=True))
    return TenantTotal(row["name"], row["slo_class"], questions, answered, met, row["last_seen_at"])
