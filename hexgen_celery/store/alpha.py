"""The history of the dispatch policies: what the tuner weighed, what operators set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import redis
from sqlalchemy import Connection, Engine, func, select

from hexgen_celery.core.clock import Clock, WallClock
from hexgen_celery.keys import Keys
from hexgen_celery.live_tuning.entries import KEPT, TuningEntry, TuningStore
from hexgen_celery.policies import PolicyChoice, PolicyStore
from hexgen_celery.store.choices import OPERATOR, TUNER, last_choices
from hexgen_celery.store.engine import naming_a_lost_store
from hexgen_celery.store.models import AlphaChange
from hexgen_celery.store.records import Row
from hexgen_celery.store.values import clean, moment
from hexgen_celery.store.writing import upsert


class AlphaHistory:
    """Copies what is new. Two recorders that copy at once write the tuner's decisions once."""

    def __init__(
        self, client: redis.Redis, keys: Keys, engine: Engine, clock: Clock | None = None
    ) -> None:
        self._tunings = TuningStore(client, keys)
        self._policies = PolicyStore(client, keys)
        self._engine = engine
        self._deployment = keys.prefix
        self._clock = clock or WallClock()
        self._seen: dict[str, PolicyChoice] | None = None
        self._agreed: dict[str, PolicyChoice] | None = None

    def copy(self) -> int:
        """Store what the store does not know yet; how many rows that were.

        A policy in force counts as an operator's when it is there for the second time: the tuner
        may have set it and be about to say so.

        Raises:
            redis.RedisError: Redis is away.
            StoreUnavailable, StoreOutdated: nothing was written.
        """
        entries, in_force = self._tunings.recent(KEPT), self._policies.read()
        settled = in_force if in_force == self._seen else None
        with naming_a_lost_store(self._engine), self._engine.begin() as connection:
            rows = self._new(connection, entries, settled)
            upsert(connection, AlphaChange, [clean(row) for row in rows])
        self._seen = in_force
        if settled is not None:
            self._agreed = settled
        elif any(map(_moved, rows)):
            self._agreed = None
        return len(rows)

    def _new(
        self,
        connection: Connection,
        entries: Iterable[TuningEntry],
        in_force: Mapping[str, PolicyChoice] | None,
    ) -> list[Row]:
        since = self._last_tuning(connection)
        tuned = [self._tuned(entry) for entry in entries if since is None or entry.at > since]
        moved = [row for row in tuned if _moved(row)]
        # Looking at the whole history costs too much to do it while nothing happens.
        if in_force is None or (in_force == self._agreed and not moved):
            return tuned
        before = self._last_choices(connection)
        before.update({row["scope"]: _policy_of(row) for row in reversed(moved)})
        changed = [
            self._set(name, choice)
            for name, choice in in_force.items()
            if (choice.dispatch, dict(choice.parameters)) != before.get(name)
        ]
        gone = [name for name, (policy, _) in before.items() if policy and name not in in_force]
        return [*tuned, *changed, *(self._set(name, PolicyChoice("")) for name in gone)]

    def _last_tuning(self, connection: Connection) -> float | None:
        mine = AlphaChange.deployment == self._deployment
        statement = select(func.max(AlphaChange.at)).where(mine, AlphaChange.source == TUNER)
        return connection.execute(statement).scalar()

    def _last_choices(self, connection: Connection) -> dict[str, tuple[str, dict[str, Any]]]:
        """By scope the policy that came into force last, as far as the store knows."""
        mine = AlphaChange.deployment == self._deployment
        rows = connection.execute(last_choices(AlphaChange.__table__).where(mine))
        return {row.scope: _policy_of(dict(row._mapping)) for row in rows}

    def _tuned(self, entry: TuningEntry) -> Row:
        chosen = dict(entry.chosen)
        row = self._row(entry.at, TUNER, entry.scope, str(chosen.pop("dispatch", "")), chosen)
        return {**row, "detail": {**row["detail"], **asdict(entry)}}

    def _set(self, name: str, choice: PolicyChoice) -> Row:
        return self._row(self._clock.now(), OPERATOR, name, choice.dispatch, choice.parameters)

    def _row(
        self, at: float, source: str, name: str, policy: str, parameters: Mapping[str, Any]
    ) -> Row:
        return {
            "deployment": self._deployment,
            "at": at,
            "source": source,
            "scope": name,
            "policy": policy,
            "alpha": moment(parameters.get("alpha")),
            "detail": {"parameters": dict(parameters)},
        }


def _moved(row: Mapping[str, Any]) -> bool:
    """Whether the row is a policy that came into force, and not one that was merely weighed."""
    detail = row["detail"]
    return row["source"] == OPERATOR or bool(detail.get("moved") or detail.get("reverted"))


def _policy_of(row: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return str(row["policy"]), dict(row["detail"].get("parameters") or {})
