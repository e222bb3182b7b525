"""What the comparison of the emulated cluster with the simulator is made of."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hexgen_celery.profiles_io import load_fleet
from hexgen_celery.settings import Settings
from hexgen_celery.simulator import Choice, Policies, SimulationConfig
from hexgen_celery.workloads import Workload, WorkloadQuestion, WorkloadRequest
from tests.benchmarks.agreement import (
    Figures,
    drawn_workload,
    population_of,
    recorded_population,
    simulated,
    without_expiry,
)
from tests.benchmarks.stack_cluster import cluster_document

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


def test_recorded_questions_are_played_as_they_came() -> None:
    workload = drawn_workload(LINES, 20, 0.5, 2, seed=1)
    drawn = recorded_population(workload, load_fleet("het-30b"))
    assert [one.at for one in drawn] == [one.arrival for one in workload.questions]
    assert all(one.measured for one in drawn)


def test_the_simulator_plays_what_a_cluster_is_asked() -> None:
    fleet = load_fleet("het-30b")
    workload = Workload("few", tuple(LINES))
    config = without_expiry(
        SimulationConfig(
            workload, fleet, 0.5, policies=ALPHA, questions=20, warmup=5, cooldown=0, databases=2
        )
    )
    assert sum(one.measured for one in population_of(config)) == 20
    figures = simulated(config)
    assert 0 < figures.p50 <= figures.p95 < 10
    assert set(figures.utilisation) == set(fleet.pools)


def test_the_clusters_configuration_is_a_valid_one(tmp_path: Path) -> None:
    fleet = load_fleet("het-70b")
    document = tomllib.loads(cluster_document(tmp_path, fleet, ALPHA, "[emulator]\nspeed = 4\n"))
    settings = Settings(**document)
    assert settings.router.parameters == {"alpha": 0.2}
    assert settings.emulator.speed == 4
    assert [len(pool.instances) for pool in settings.pools] == [2, 1, 1]
