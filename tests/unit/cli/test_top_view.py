"""What `hexgen top` draws for a given overview."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from hexgen_celery.cli.top_view import FRAME_LINES, LEAST_ROWS, headline, render, shares
from hexgen_celery.instances import InstanceRecord, InstanceState
from hexgen_celery.overview import ClusterCounts, Overview, QuestionAtWork
from hexgen_celery.overview.counts import InstanceCounts, OutboxCounts, PoolCounts, TenantCounts
from hexgen_celery.transport.inspection import WaitingRequest

PROFILE = "a100-80g-x1-qwen3-30b-a3b"
RECORD = InstanceRecord(
    "a1", "gpu.a100.x", "a100", "model", PROFILE, "http://a", "llm-a1@h", 8, reason="[bold] away"
)
COUNTS = ClusterCounts(
    now=1_700_000_000.0,
    instances=(InstanceCounts(RECORD, InstanceState.SUSPECT, 3, 2, 10_000, 1.0),),
    pools=(PoolCounts("gpu.a100.x", 7, 2, 3, 12.5),),
    processes=(),
    questions_running=9,
    requests_running=3,
    tenants=(TenantCounts("acme", 9, {"gold": {"accepted": 12, "answered": 4, "met": 3}}),),
)
LATE = QuestionAtWork("w1", "How many?", "shop", "acme", "gold", 30.0, 4.0, -1.5, "claimed c-1 a1")
WAITING = WaitingRequest("w1/c-2/1", "hexgen.candidate_generation", "gpu.a100.x", -1.5, True)
OVERVIEW = Overview(COUNTS, (WAITING,), (LATE, replace(LATE, id="w2", laxity=20.0)))


def _drawn(overview: Overview, height: int = 60) -> str:
    console = Console(file=io.StringIO(), width=160)
    console.print(render(overview, height))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_instances_queues_requests_questions_and_tenants_are_shown() -> None:
    drawn = _drawn(OVERVIEW)
    for text in (
        "suspect",
        "3/8",
        "[bold] away",
        "gpu.a100.x",
        "12.5 s",
        "0/1",
        "too late",
        "-1.5 s",
        "How many?",
        "claimed c-1 a1",
        "75.0%",
    ):
        assert text in drawn, text
    assert "w2" not in drawn, "a question with time to spare is not at risk"


def test_the_headline_names_what_needs_care_and_nothing_else() -> None:
    calm = headline(OVERVIEW)
    assert "9 questions running" in calm
    assert "1 at risk" in calm
    assert "unsent" not in calm
    assert "dead" not in calm
    troubled = replace(COUNTS, outbox=OutboxCounts(5, 4, 0.0), dead_letters=2, leases_overdue=1)
    drawn = headline(replace(OVERVIEW, counts=troubled))
    assert "4 unsent" in drawn
    assert "2 dead letters" in drawn
    assert "1 leases overdue" in drawn


def test_an_empty_cluster_is_a_headline_alone() -> None:
    empty = ClusterCounts(0.0, (), (), ())
    assert len(_drawn(Overview(empty, (), ())).splitlines()) == 1


def test_a_long_table_is_cut_and_says_so() -> None:
    many = tuple(
        InstanceCounts(replace(RECORD, name=f"a{n}"), InstanceState.READY, 0, 0, 0, 0.0)
        for n in range(100)
    )
    drawn = _drawn(Overview(replace(COUNTS, instances=many), (), ()), height=30)
    assert "of 100)" in drawn
    assert len(drawn.splitlines()) < 45


def test_an_unknown_profile_leaves_the_kv_column_empty() -> None:
    record = replace(RECORD, profile="no-such-profile")
    counts = replace(COUNTS, instances=(replace(COUNTS.instances[0], record=record),))
    assert "—" in _drawn(replace(OVERVIEW, counts=counts))


@given(lengths=st.lists(st.integers(1, 200), min_size=1, max_size=6), height=st.integers(10, 120))
def test_tables_share_the_height(lengths: list[int], height: int) -> None:
    given_rows = shares(lengths, height)
    room = height - FRAME_LINES * len(lengths)
    for length, rows in zip(lengths, given_rows, strict=True):
        assert LEAST_ROWS <= rows <= max(length, LEAST_ROWS)
    if room >= LEAST_ROWS * len(lengths):
        assert sum(given_rows) <= room
    if sum(max(length, LEAST_ROWS) for length in lengths) <= room:
        assert all(rows >= length for rows, length in zip(given_rows, lengths, strict=True))


@pytest.mark.parametrize(
    ("laxity", "left", "slo", "at_risk"),
    [
        (-0.1, 20.0, 30.0, True),
        (2.9, 20.0, 30.0, True),
        (3.1, 20.0, 30.0, False),
        (0.9, 3.0, 4.0, True),
        (None, 20.0, 30.0, False),
        (None, 0.5, 30.0, True),
    ],
)
def test_a_question_is_at_risk_when_its_laxity_is_small_for_its_slo(
    laxity: float | None, left: float, slo: float, at_risk: bool
) -> None:
    question = replace(LATE, laxity=laxity, left=left, slo_seconds=slo)
    assert question.at_risk is at_risk
