"""Attainment and percentiles, worked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.answers import NoAnswer
from hexgen_celery.slo_report import Ending, SloReport, percentile


def _ending(slo_class: str, latency: float | None, met: bool, status: str = "answered") -> Ending:
    return Ending(slo_class, status, latency, met)


def test_report_of_two_classes() -> None:
    endings = [
        _ending("interactive", 1.0, True),
        _ending("interactive", 5.0, False),
        _ending("relaxed", 3.0, True),
        _ending("relaxed", None, False, "expired"),
        _ending("relaxed", None, False, "lost"),
    ]
    report = SloReport.of(endings)
    assert (report.questions, report.answered, report.lost) == (5, 3, 1)
    assert report.attainment == pytest.approx(0.4)
    assert report.attainment_by_class == {
        "interactive": pytest.approx(0.5),
        "relaxed": pytest.approx(1 / 3),
    }
    assert (report.p50_seconds, report.p95_seconds) == (3.0, 5.0)
    assert report.to_json()["questions"] == 5


def test_nothing_at_all() -> None:
    report = SloReport.of([])
    assert (report.questions, report.attainment, report.p50_seconds) == (0, 0.0, None)


def test_a_failure_keeps_its_latency_but_not_its_deadline() -> None:
    failure = NoAnswer("id", "failed", {"latency_seconds": 2.5, "stage": "evaluation"})
    assert Ending.of("interactive", failure) == _ending("interactive", 2.5, False, "failed")
    assert Ending.of("interactive", None).status == "lost"


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2), (0.95, 4), (0.25, 1), (1.0, 4)])
def test_nearest_rank(share: float, expected: float) -> None:
    assert percentile([4, 2, 1, 3], share) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1.0))
def test_percentile_leaves_at_least_its_share_below(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
