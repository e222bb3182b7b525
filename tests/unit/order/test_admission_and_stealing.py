"""How much an instance takes in, and what it may take from others."""

from __future__ import annotations

import math

import pytest

from hexgen_celery.core.admission import (
    Allowance,
    ClaimCost,
    EngineLoad,
    build_admission,
    claim_cost,
)
from hexgen_celery.core.order import WaitingEntry
from hexgen_celery.core.registry import InvalidParameter
from hexgen_celery.core.stealing import StealCandidate, build_stealing
from hexgen_celery.core.views import RequestView
from tests.small_profile import small_profile

PROFILE = small_profile(
    name="p",
    gpu="A100",
    decode_base=0.03,
    decode_per_sequence=0.0,
    kv_tokens=10_000,
    max_sequences=4,
    max_model_len=8_000,
)


def load(running: int = 1, kv: float = 0.0, prefill: float = 0.0) -> EngineLoad:
    return EngineLoad(PROFILE, running, kv, prefill)


def test_the_allowance_is_what_is_left() -> None:
    policy = build_admission("allowance", kv_share=0.9, prefill_seconds=2.0)
    assert policy.allowance(load(1, kv=4000.0, prefill=500.0)) == Allowance(5000.0, 1500.0, 3)


@pytest.mark.parametrize(
    ("cost", "held", "allowed"),
    [
        (ClaimCost(5000.0, 1500.0), load(1, 4000.0, 500.0), True),
        (ClaimCost(5001.0, 1500.0), load(1, 4000.0, 500.0), False),
        (ClaimCost(5000.0, 1501.0), load(1, 4000.0, 500.0), False),
        (ClaimCost(1.0, 1.0), load(4), False),
        (ClaimCost(9500.0, 7000.0), load(0), True),
        (ClaimCost(5000.0, 7000.0), load(1, 4000.0, 0.0), True),
    ],
)
def test_a_request_starts_when_there_is_room(
    cost: ClaimCost, held: EngineLoad, allowed: bool
) -> None:
    assert build_admission("allowance").allows(cost, held) is allowed


def test_fixed_slots_only_count() -> None:
    policy = build_admission("fixed-slots", slots=2)
    huge = ClaimCost(1e9, 1e9)
    assert policy.allows(huge, load(1))
    assert not policy.allows(huge, load(2))
    assert policy.allowance(load(2)) == Allowance(math.inf, math.inf, 0)
    assert policy.allowance(load(1)).fits(huge)


def test_a_cached_prefix_costs_nothing() -> None:
    request = RequestView(
        "r", "w", "s", "p", "d", "t", "m", 1000, 50.0, (), 0.0, 9.0, 0.0, 1.0, 1.0
    )
    assert claim_cost(request, 800) == ClaimCost(250.0, 200)
    assert claim_cost(request, 1200) == ClaimCost(50.0, 0)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("allowance", {"kv_share": 0.0}, "kv_share"),
        ("allowance", {"prefill_seconds": 0.0}, "prefill_seconds"),
        ("allowance", {"sequences": -1}, "sequences"),
        ("fixed-slots", {"slots": 0}, "slots"),
    ],
)
def test_impossible_settings_are_refused(name: str, values: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        build_admission(name, **values)


def candidate(
    name: str, key: float, there: float, here: float, kv: float = 1.0
) -> StealCandidate[WaitingEntry]:
    waiting = WaitingEntry(name, key, math.inf, 0.0, ClaimCost(kv, 1.0))
    return StealCandidate(waiting, there, here)


def test_stealing_takes_the_most_urgent_that_gains() -> None:
    policy = build_stealing("most-urgent", margin_seconds=1.0)
    room = Allowance(100.0, 100.0, 1)
    offers = [
        candidate("urgent-without-gain", 1.0, there=10.0, here=9.5),
        candidate("urgent-but-large", 2.0, there=20.0, here=5.0, kv=500.0),
        candidate("chosen", 3.0, there=10.0, here=8.0),
        candidate("gains-most", 4.0, there=90.0, here=8.0),
    ]
    chosen = policy.choose(offers, room)
    assert chosen is not None
    assert chosen.entry.request_id == "chosen"
    assert policy.choose(offers[:2], room) is None
    assert policy.enabled


def test_without_stealing_nothing_moves() -> None:
    policy = build_stealing("none")
    assert policy.choose([candidate("a", 1.0, 99.0, 1.0)], Allowance(1e3, 1e3, 1)) is None
    assert not policy.enabled
