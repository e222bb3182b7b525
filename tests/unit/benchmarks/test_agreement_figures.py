"""What the comparison of the emulated cluster with the simulator is made of."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hexgen_celery.profiles_io import load_fleet
from hexgen_celery.settings import Settings
from hexgen_celery.simulator import Choice, Policies
from hexgen_celery.workloads import WorkloadQuestion, WorkloadRequest
from tests.benchmarks.agreement import Figures, _document, drawn_workload, simulated

REQUEST = WorkloadRequest(0, "schema_linking", "link", (), 500, 20, 100, 200)
LINES = [WorkloadQuestion(f"q{n}", "shop", (REQUEST,), split="test") for n in range(3)]
ALPHA = Policies(dispatch=Choice("alpha", {"alpha": 0.2}))


def test_differences_are_shares_of_the_simulated_latencies_and_points_of_utilisation() -> None:
    live = Figures.of([1.0, 2.0, 3.3], {"a": 0.50, "b": 0.80})
    expected = Figures.of([1.0, 2.0, 3.0], {"a": 0.55, "b": 0.79})
    found = live.differences(expected)
    assert found["p50"] == pytest.approx(0)
    assert found["mean"] == pytest.approx(5)
    assert found["utilisation"] == pytest.approx(5)


def test_both_sides_get_the_same_questions_at_the_same_moments() -> None:
    first = drawn_workload(LINES, 200, 0.5, 3, seed=1)
    assert first == drawn_workload(LINES, 200, 0.5, 3, seed=1)
    assert first != drawn_workload(LINES, 200, 0.5, 3, seed=2)
    arrivals = [question.arrival or 0.0 for question in first.questions]
    assert arrivals == sorted(arrivals)
    assert 200 / arrivals[-1] == pytest.approx(0.5, rel=0.3)
    assert {question.database for question in first.questions} == {"shop.0", "shop.1", "shop.2"}


def test_the_simulator_plays_all_of_them() -> None:
    fleet = load_fleet("het-30b")
    figures = simulated(drawn_workload(LINES, 20, 0.5, 2, seed=1), fleet, ALPHA)
    assert 0 < figures.p50 <= figures.p95 < 10
    assert set(figures.utilisation) == set(fleet.pools)


def test_the_clusters_configuration_is_a_valid_one(tmp_path: Path) -> None:
    fleet = load_fleet("het-70b")
    document = tomllib.loads(_document(tmp_path, fleet, ALPHA, 4.0))
    settings = Settings(**document)
    assert settings.router.parameters == {"alpha": 0.2}
    assert [len(pool.instances) for pool in settings.pools] == [2, 1, 1]
