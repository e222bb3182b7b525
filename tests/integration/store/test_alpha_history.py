"""What the tuner decided and operators set, copied once each, in both kinds of database."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis
from sqlalchemy import Engine

from hexgen_celery.keys import Keys
from hexgen_celery.live_tuning import TuningStore
from hexgen_celery.live_tuning.entries import TuningEntry
from hexgen_celery.policies import PolicyChoice, PolicyStore
from hexgen_celery.store.alpha import AlphaHistory
from hexgen_celery.store.models import AlphaChange
from hexgen_celery.store.reading import StoreReader
from hexgen_celery.store.retention import DAY_SECONDS, Pruner, Retention
from hexgen_celery.store.writing import upsert

pytestmark = pytest.mark.integration


@pytest.fixture
def history(redis_client: redis.Redis, keys: Keys, store: Engine) -> AlphaHistory:
    return AlphaHistory(redis_client, keys, store)


@pytest.fixture
def policies(redis_client: redis.Redis, keys: Keys) -> PolicyStore:
    return PolicyStore(redis_client, keys)


@pytest.fixture
def tunings(redis_client: redis.Redis, keys: Keys) -> TuningStore:
    return TuningStore(redis_client, keys)


def _entry(at: float, alpha: float, *, moved: bool) -> TuningEntry:
    chosen = {"dispatch": "alpha", "alpha": alpha}
    numbers: dict[str, Any] = {"predicted": float("inf"), "measured": 2.0}
    return TuningEntry(
        at=at, objective="p95", questions=50, rate=1.0, chosen=chosen, incumbent=chosen,
        moved=moved, reverted=False, gain=0.1, confidence=0.9, **numbers,
    )  # fmt: skip


def _shown(store: Engine, keys: Keys, limit: int = 20) -> list[tuple[str, str, str, float | None]]:
    rows = StoreReader(store, keys.prefix).alpha(limit)
    return [(row["source"], row["scope"], row["policy"], row["alpha"]) for row in rows][::-1]


def test_decisions_of_the_tuner_are_copied_once(
    history: AlphaHistory, policies: PolicyStore, tunings: TuningStore, store: Engine, keys: Keys
) -> None:
    policies.set(PolicyChoice("alpha", {"alpha": 0.3}))
    tunings.add(_entry(100.0, 0.3, moved=True))
    tunings.add(_entry(160.0, 0.3, moved=False))
    assert [history.copy(), history.copy()] == [2, 0]
    policies.set(PolicyChoice("alpha", {"alpha": 0.5}))
    tunings.add(_entry(220.0, 0.5, moved=True))
    assert history.copy() == 1
    assert _shown(store, keys) == [
        ("tuner", "@", "alpha", 0.3),
        ("tuner", "@", "alpha", 0.3),
        ("tuner", "@", "alpha", 0.5),
    ]


def test_what_an_operator_sets_and_takes_back_is_noted(
    history: AlphaHistory, policies: PolicyStore, store: Engine, keys: Keys
) -> None:
    history.copy()
    policies.set(PolicyChoice("alpha", {"alpha": 0.7}), tenant="acme")
    assert [history.copy() for _ in range(3)] == [0, 1, 0]
    policies.clear(tenant="acme")
    assert [history.copy() for _ in range(3)] == [0, 1, 0]
    assert _shown(store, keys) == [
        ("operator", "acme@", "alpha", 0.7),
        ("operator", "acme@", "", None),
    ]


def test_a_policy_set_long_ago_is_not_taken_for_a_new_one(
    history: AlphaHistory,
    policies: PolicyStore,
    tunings: TuningStore,
    redis_client: redis.Redis,
    store: Engine,
    keys: Keys,
) -> None:
    policies.set(PolicyChoice("alpha", {"alpha": 0.7}), tenant="acme")
    policies.set(PolicyChoice("alpha", {"alpha": 0.6}), tenant="left")
    assert [history.copy() for _ in range(3)] == [0, 2, 0]
    weighed = [_weighed(keys, 5e9 + number) for number in range(1200)]
    with store.begin() as connection:
        upsert(connection, AlphaChange, weighed)
    assert history.copy() == 0
    policies.clear(tenant="left")
    successor = AlphaHistory(redis_client, keys, store)
    assert [successor.copy() for _ in range(3)] == [0, 1, 0]
    (gone,) = [row for row in _shown(store, keys, 2000) if not row[2]]
    assert gone == ("operator", "left@", "", None)


def test_a_policy_outlives_the_retention_of_the_history(
    history: AlphaHistory,
    policies: PolicyStore,
    redis_client: redis.Redis,
    store: Engine,
    keys: Keys,
) -> None:
    policies.set(PolicyChoice("alpha", {"alpha": 0.7}), tenant="acme")
    policies.set(PolicyChoice("alpha", {"alpha": 0.6}), tenant="left")
    assert [history.copy() for _ in range(3)] == [0, 2, 0]
    policies.clear(tenant="left")
    with store.begin() as connection:
        upsert(connection, AlphaChange, [_weighed(keys, 100.0)])
    assert [history.copy() for _ in range(3)] == [0, 1, 0]
    pruner = Pruner(store, Retention({AlphaChange: 1.0}, 2))
    assert pruner.prune(time.time() + 2 * DAY_SECONDS) == {"alpha_history": 3}
    assert _shown(store, keys) == [("operator", "acme@", "alpha", 0.7)]
    successor = AlphaHistory(redis_client, keys, store)
    assert [successor.copy() for _ in range(3)] == [0, 0, 0]


def _weighed(keys: Keys, at: float) -> dict[str, Any]:
    """A row of what the tuner weighed and left as it was."""
    detail = {"moved": False, "reverted": False, "parameters": {"alpha": 0.5}}
    row = {"source": "tuner", "scope": "@", "policy": "alpha", "alpha": 0.5, "detail": detail}
    return {"deployment": keys.prefix, "at": at, **row}


def test_what_was_tuned_and_set_back_in_one_breath_is_noted_twice(
    history: AlphaHistory, policies: PolicyStore, tunings: TuningStore, store: Engine, keys: Keys
) -> None:
    policies.set(PolicyChoice("alpha", {"alpha": 0.3}))
    assert [history.copy() for _ in range(3)] == [0, 1, 0]
    policies.set(PolicyChoice("alpha", {"alpha": 0.5}))
    tunings.add(_entry(100.0, 0.5, moved=True))
    assert history.copy() == 1
    policies.set(PolicyChoice("alpha", {"alpha": 0.9}))
    assert [history.copy() for _ in range(3)] == [0, 1, 0]


def test_what_the_tuner_put_in_force_is_not_taken_for_an_operators(
    history: AlphaHistory, policies: PolicyStore, tunings: TuningStore, store: Engine, keys: Keys
) -> None:
    policies.set(PolicyChoice("alpha", {"alpha": 0.4}))
    assert history.copy() == 0
    tunings.add(_entry(100.0, 0.4, moved=True))
    assert [history.copy() for _ in range(3)] == [1, 0, 0]
    assert _shown(store, keys) == [("tuner", "@", "alpha", 0.4)]
