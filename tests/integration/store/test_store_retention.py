"""What is deleted when, and what is still known of it, in both kinds of database."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine

from hexgen_celery.settings import StoreSettings
from hexgen_celery.store.models import AlphaChange, Base, Decision, Request, Workflow
from hexgen_celery.store.reading import StoreReader
from hexgen_celery.store.retention import DAY_SECONDS, Pruner, Retention
from hexgen_celery.store.writing import StoreWriter, upsert
from tests.unit.store import question_samples as samples

pytestmark = pytest.mark.integration

NOW = 2_000_000_000.0


def _fill(store: Engine, ages: dict[str, float], **changes: Any) -> None:
    """Questions by name with their age in days."""
    questions = [
        samples.question(name, NOW - days * DAY_SECONDS, **changes) for name, days in ages.items()
    ]
    StoreWriter(store).write(questions)


def _pruner(store: Engine, rows: int = 2, **days: float) -> Pruner:
    settings = StoreSettings(prune_rows=rows, **{f"keep_{k}_days": v for k, v in days.items()})  # type: ignore[arg-type]
    return Pruner(store, Retention.of(settings))


def test_each_table_keeps_its_own_days(store: Engine) -> None:
    _fill(store, {"new": 1, "middle": 40, "old": 100, "ancient": 400})
    deleted = _pruner(store).prune(NOW)
    reader = StoreReader(store, samples.DEPLOYMENT)
    found = {name: reader.question(name) for name in ("new", "middle", "old", "ancient")}
    assert found["ancient"] is None
    left = {name: q for name, q in found.items() if q is not None}
    assert {name: len(q.requests) for name, q in left.items()} == {"new": 1, "middle": 1, "old": 0}
    assert {name: len(q.decisions) for name, q in left.items()} == {"new": 1, "middle": 0, "old": 0}
    assert deleted["workflows"] == 1
    assert deleted["decisions"] == 3


def test_a_question_takes_all_that_is_its_own_with_it(store: Engine) -> None:
    _fill(store, {"old": 30})
    _pruner(store, workflows=10.0).prune(NOW)
    counts = StoreReader(store, samples.DEPLOYMENT).counts()
    own = ("workflows", "requests", "executions", "candidates", "decisions")
    assert [counts[name] for name in own] == [0] * 5
    assert counts["tenants"] == 1


def test_many_rows_go_in_small_transactions(store: Engine) -> None:
    _fill(store, {f"q{number}": 50 + number for number in range(11)})
    deleted = _pruner(store, rows=3, workflows=55.5).prune(NOW)
    assert deleted["workflows"] == 5
    assert StoreReader(store, samples.DEPLOYMENT).counts()["workflows"] == 6
    assert _pruner(store, rows=3, workflows=55.5).prune(NOW) == dict.fromkeys(deleted, 0)


def test_totals_of_tenants_outlive_their_questions(store: Engine) -> None:
    _fill(store, {"a": 500, "b": 1}, tenant="acme")
    _fill(store, {"c": 500}, tenant="acme", status="failed", deadline_met=False)
    _fill(store, {"d": 500}, tenant="acme", status="cancelled", deadline_met=False)
    reader = StoreReader(store, samples.DEPLOYMENT)
    before = reader.tenants()
    _pruner(store).prune(NOW)
    assert reader.tenants() == before
    (total,) = before
    assert (total.questions, total.answered, total.met) == (3, 2, 2)


def test_old_changes_of_policies_go_too(store: Engine) -> None:
    def change(at: float) -> dict[str, Any]:
        key = {"deployment": "d", "at": at, "source": "tuner", "scope": "@"}
        return {**key, "policy": "alpha", "alpha": 0.5, "detail": {}}

    with store.begin() as connection:
        upsert(connection, AlphaChange, [change(NOW), change(NOW - 366 * DAY_SECONDS)])
    assert _pruner(store).prune(NOW)["alpha_history"] == 1
    assert len(StoreReader(store, "d").alpha()) == 1


def test_every_table_of_questions_has_a_time_to_be_kept() -> None:
    kept = set(Retention.of(StoreSettings()).days)
    assert {Workflow, Request, Decision} < kept
    tables = {model.__tablename__ for model in kept}
    assert set(Base.metadata.tables) - tables == {"tenants"}
