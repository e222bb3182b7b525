"""The claim rule: as specified, starving nobody, and equal over an ordered queue."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexgen_celery.core.admission import Allowance, ClaimCost
from hexgen_celery.core.order import (
    Claim,
    ClaimRules,
    WaitingEntry,
    WaitingQueue,
    claim,
    select,
)

ROOM = Allowance(1000.0, 1000.0, 8)
RULES = ClaimRules(every=4, patience=2, depth=3)


def entry(
    name: str, key: float, until: float = math.inf, since: float = 0.0, kv: float = 1.0
) -> WaitingEntry:
    return WaitingEntry(name, key, until, since, ClaimCost(kv, 1.0))


def taken(claim: Claim[WaitingEntry]) -> str | None:
    return claim.taken.request_id if claim.taken else None


def test_the_most_urgent_goes_first() -> None:
    waiting = [entry("b", 2.0), entry("a", 1.0), entry("c", 1.0)]
    assert taken(select(waiting, 0.0, 0, ROOM, RULES)) == "a"


def test_late_requests_are_demoted_behind_feasible_ones() -> None:
    waiting = [entry("late", 1.0, until=9.0), entry("ok", 5.0, until=12.0)]
    assert taken(select(waiting, 9.0, 0, ROOM, RULES)) == "late"
    assert taken(select(waiting, 9.1, 0, ROOM, RULES)) == "ok"


def test_one_claim_in_every_goes_to_the_oldest_demoted() -> None:
    waiting = [entry("ok", 50.0)] + [
        entry(name, 1.0, until=0.0, since=age) for name, age in (("young", 8.0), ("old", 3.0))
    ]
    chosen = [taken(select(waiting, 10.0, claims, ROOM, RULES)) for claims in range(8)]
    assert chosen == ["ok", "ok", "ok", "old"] * 2


def test_demoted_ones_go_when_nothing_else_waits() -> None:
    assert taken(select([entry("late", 1.0, until=0.0)], 10.0, 0, ROOM, RULES)) == "late"


def test_a_large_head_is_passed_over_only_so_often() -> None:
    head, small = entry("head", 1.0, kv=5000.0), entry("small", 2.0)
    for _ in range(RULES.patience):
        chosen = select([head, small], 0.0, 0, ROOM, RULES)
        assert taken(chosen) == "small"
        assert chosen.passed_over is head
        head.passed_over += 1
    assert select([head, small], 0.0, 0, ROOM, RULES) == Claim(None)


def test_only_a_few_entries_behind_the_head_are_tried() -> None:
    large = [entry(f"l{i}", float(i), kv=5000.0) for i in range(RULES.depth + 1)]
    fits = entry("fits", 99.0)
    assert taken(select([*large, fits], 0.0, 0, ROOM, RULES)) is None
    assert taken(select([*large[1:], fits], 0.0, 0, ROOM, RULES)) == "fits"


def test_no_free_sequence_takes_nothing() -> None:
    assert select([entry("a", 1.0)], 0.0, 0, replace(ROOM, sequences=0), RULES) == Claim(None)
    assert select([], 0.0, 0, ROOM, RULES) == Claim(None)


@pytest.mark.parametrize(("name", "value"), [("every", 0), ("patience", -1), ("depth", -1)])
def test_impossible_rules_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        replace(RULES, **{name: value})


times = st.integers(0, 20).map(float)
entries = st.lists(
    st.builds(
        WaitingEntry,
        st.integers(0, 10_000).map(str),
        times,
        st.one_of(times, st.just(math.inf)),
        times,
        st.builds(ClaimCost, st.integers(1, 1500).map(float), st.integers(1, 1500).map(float)),
    ),
    max_size=25,
    unique_by=lambda entry: entry.request_id,
)
rules = st.builds(ClaimRules, st.integers(1, 5), st.integers(0, 4), st.integers(0, 6))


@given(entries=entries, now=times, claims=st.integers(0, 50), rules=rules)
def test_the_rule_takes_only_what_fits(
    entries: list[WaitingEntry], now: float, claims: int, rules: ClaimRules
) -> None:
    chosen = select(entries, now, claims, ROOM, rules)
    assert chosen.taken is None or ROOM.fits(chosen.taken.cost)
    if chosen.passed_over is not None:
        assert chosen.taken is not None
        assert not ROOM.fits(chosen.passed_over.cost)


@settings(max_examples=200)
@given(
    entries=entries,
    rules=rules,
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2000)), max_size=25),
    queues=st.integers(1, 3),
)
def test_ordered_queues_claim_like_the_pure_rule(
    entries: list[WaitingEntry], rules: ClaimRules, steps: list[tuple[int, int]], queues: int
) -> None:
    lines: list[WaitingQueue[WaitingEntry]] = [WaitingQueue() for _ in range(queues)]
    for number, one in enumerate(entries):
        lines[number % queues].put(one)
    now, claims = 0.0, 0
    for passed, room in steps:
        now += passed
        allowance = Allowance(float(room), float(room), 1)
        waiting = [one for line in lines for one in line]
        expected = select(waiting, now, claims, allowance, rules)
        chosen = claim(lines, now, claims, allowance, rules)
        assert chosen == expected
        if chosen.taken is not None:
            claims += 1
            assert [line.remove(chosen.taken.request_id) for line in lines].count(
                None
            ) == queues - 1
        if chosen.passed_over is not None:
            chosen.passed_over.passed_over += 1


@given(rules=st.builds(ClaimRules, st.integers(1, 5)), demoted=st.integers(1, 6))
def test_a_demoted_request_never_starves(rules: ClaimRules, demoted: int) -> None:
    line: WaitingQueue[WaitingEntry] = WaitingQueue()
    for number in range(demoted):
        line.put(entry(f"late{number}", 0.0, until=-1.0, since=float(number)))
    served = []
    for claims in range(rules.every * demoted):
        # New feasible requests arrive faster than the machine serves.
        line.put(entry(f"new{claims}", float(claims)))
        chosen = claim([line], 0.0, claims, ROOM, rules).taken
        assert chosen is not None
        line.remove(chosen.request_id)
        served.append(chosen.request_id)
    late = [name for name in served if name.startswith("late")]
    assert late == [f"late{number}" for number in range(demoted)]


@given(patience=st.integers(0, 5))
def test_a_large_request_never_starves(patience: int) -> None:
    rules = ClaimRules(every=1000, patience=patience)
    line: WaitingQueue[WaitingEntry] = WaitingQueue()
    line.put(entry("large", 0.0, kv=900.0))
    running = 800.0
    for claims in range(20):
        line.put(entry(f"small{claims}", 1.0, kv=100.0))
        allowance = Allowance(1000.0 - running, 1000.0, 8)
        chosen = claim([line], 0.0, claims, allowance, rules)
        if chosen.taken is None:
            running -= 100.0
            continue
        if chosen.taken.request_id == "large":
            return
        line.remove(chosen.taken.request_id)
        assert chosen.passed_over is not None
        chosen.passed_over.passed_over += 1
    pytest.fail("the large request was never taken")


def test_a_queue_knows_what_waits() -> None:
    line: WaitingQueue[WaitingEntry] = WaitingQueue()
    first = entry("a", 1.0, until=5.0)
    line.put(first)
    assert "a" in line
    assert len(line) == 1
    with pytest.raises(ValueError, match="request a is waiting already"):
        line.put(first)
    line.demote(6.0)
    assert line.demoted == [first]
    assert line.remove("a") is first
    assert line.remove("a") is None
    assert len(line) == 0


def test_a_request_that_returns_is_demoted_by_its_new_moment() -> None:
    line: WaitingQueue[WaitingEntry] = WaitingQueue()
    line.put(entry("a", 1.0, until=5.0))
    line.remove("a")
    line.put(entry("a", 1.0, until=9.0))
    line.demote(6.0)
    assert [one.request_id for one in line.feasible] == ["a"]
    line.demote(10.0)
    assert [one.request_id for one in line.demoted] == ["a"]
