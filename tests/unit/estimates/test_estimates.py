"""Estimates: what they learn, how they back off, and that they are calibrated."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.core.estimates import (
    Estimate,
    LearningRates,
    OutputEstimator,
    PathEstimator,
    PathNode,
    calibrate,
    critical_path,
    rounds,
)
from hexgen_celery.core.estimates.critical_path import in_order, tails
from hexgen_celery.core.estimates.samples import DecayedSample, weighted_summary


def corrected(corrections: int, generation: float = 10.0) -> list[PathNode]:
    """Two candidates in parallel, a chain of corrections, three parallel evaluations."""
    nodes = [
        PathNode("a", "generation", "candidate", (), generation),
        PathNode("b", "generation", "candidate", (), generation / 2),
    ]
    last: tuple[str, ...] = ("a", "b")
    for number in range(corrections):
        nodes.append(PathNode(f"r{number}", "correction", "revise", last, 2.0))
        last = (f"r{number}",)
    return nodes + [PathNode(f"e{i}", "evaluation", "evaluate", last, 1.0) for i in range(3)]


def test_paths_are_the_longest_ones() -> None:
    assert critical_path(corrected(2)) == 10.0 + 4.0 + 1.0
    assert tails(in_order(corrected(1)))["b"] == 3.0
    assert critical_path([]) == 0.0


def test_the_order_of_nodes_does_not_matter() -> None:
    assert critical_path(reversed(corrected(3))) == critical_path(corrected(3))


def test_impossible_graphs_are_refused() -> None:
    with pytest.raises(ValueError, match="cyclic or missing prerequisites among: a"):
        critical_path([PathNode("a", "s", "p", ("a",), 1.0)])
    with pytest.raises(ValueError, match="cyclic or missing"):
        critical_path([PathNode("a", "s", "p", ("gone",), 1.0)])


def test_rounds_count_sequential_requests_only() -> None:
    number = rounds(in_order(corrected(3)))
    assert [number[name] for name in ("a", "b", "r0", "r1", "r2", "e0", "e2")] == [
        0, 0, 0, 1, 2, 0, 0,
    ]  # fmt: skip


def test_outputs_follow_the_database_and_back_off() -> None:
    estimator = OutputEstimator()
    for _ in range(50):
        estimator.observe("generation", "candidate", "small", 200.0)
        estimator.observe("generation", "candidate", "large", 600.0)
    assert estimator.estimate("generation", "candidate", "small").mean == pytest.approx(
        200, rel=0.1
    )
    assert estimator.estimate("generation", "candidate", "large").mean == pytest.approx(
        600, rel=0.1
    )
    assert estimator.estimate("generation", "candidate", "new").mean == pytest.approx(400, rel=0.1)
    assert estimator.estimate("generation", "other", "new").mean == pytest.approx(400, rel=0.1)


def test_one_observation_does_not_outweigh_the_coarser_level() -> None:
    estimator = OutputEstimator()
    for _ in range(50):
        estimator.observe("generation", "candidate", "known", 400.0)
    estimator.observe("generation", "candidate", "new", 4000.0)
    assert estimator.estimate("generation", "candidate", "new").mean < 1500


def test_without_any_observation_the_prior_speaks() -> None:
    prior = Estimate(50.0, 10.0, 90.0)
    assert OutputEstimator(prior).estimate("s", "p", "d") == prior


def test_old_observations_fade() -> None:
    estimator = OutputEstimator(rates=LearningRates(window=200, decay=0.9))
    for value in [100.0] * 100 + [500.0] * 50:
        estimator.observe("s", "p", "d", value)
    assert estimator.estimate("s", "p", "d").mean == pytest.approx(500, rel=0.1)


def test_the_window_is_bounded() -> None:
    sample = DecayedSample(LearningRates(window=10))
    for value in range(100):
        sample.add(float(value))
    assert list(sample.values) == [float(value) for value in range(90, 100)]


@given(values=st.lists(st.floats(0, 1e6), min_size=1, max_size=80))
def test_summaries_lie_within_what_was_seen(values: list[float]) -> None:
    summary = weighted_summary(values, 0.98)
    assert min(values) <= summary.p10 <= summary.p90 <= max(values)
    assert min(values) * (1 - 1e-9) <= summary.mean <= max(values) * (1 + 1e-9)


def test_a_summary_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing was observed"):
        weighted_summary([], 0.9)


@pytest.mark.parametrize("wrong", [{"window": 0}, {"decay": 0.0}, {"prior_strength": -1.0}])
def test_impossible_rates_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="window must be at least 1"):
        LearningRates(**wrong)  # type: ignore[arg-type]


def trained(seed: int = 0, count: int = 300) -> PathEstimator:
    rng = random.Random(seed)
    estimator = PathEstimator()
    for _ in range(count):
        estimator.observe(corrected(rng.randint(0, 8), rng.gauss(10.0, 1.0)), "d")
    return estimator


def test_what_follows_depends_on_the_corrections_seen() -> None:
    estimator = trained()
    means = [estimator.tail("correction", "revise", number, "d").mean for number in range(8)]
    # Uniform 0…8 corrections: after the first, 3.5 more are expected; after the eighth none.
    assert means == sorted(means, reverse=True)
    assert means[0] == pytest.approx(1.0 + 2.0 * 3.5, rel=0.15)
    assert means[7] == pytest.approx(1.0, rel=0.3)


def test_the_mean_left_is_own_time_and_tail() -> None:
    estimator = trained()
    tail = estimator.tail("generation", "candidate", 0, "d")
    left = estimator.remaining("generation", "candidate", 0, "d", 12.0)
    assert left.mean == pytest.approx(12.0 + tail.mean)
    assert left.p10 < left.mean < left.p90


def test_the_interval_covers_four_truths_in_five() -> None:
    rng = random.Random(7)
    estimator = trained()
    pairs = []
    for _ in range(400):
        workflow = corrected(rng.randint(0, 8), rng.gauss(10.0, 1.0))
        estimate = estimator.remaining("generation", "candidate", 0, "d", 10.0)
        pairs.append((estimate, critical_path(workflow)))
        estimator.observe(workflow, "d")
    assert 0.72 <= calibrate(pairs).coverage <= 0.88
    assert abs(calibrate(pairs).bias) < 0.05


def test_a_shift_widens_the_interval_until_it_covers() -> None:
    rng = random.Random(9)
    estimator = trained()
    hits = []
    for _ in range(400):
        workflow = corrected(rng.randint(0, 8), rng.gauss(10.0, 8.0))
        estimate = estimator.remaining("generation", "candidate", 0, "d", 10.0)
        hits.append(estimate.p10 <= critical_path(workflow) <= estimate.p90)
        estimator.observe(workflow, "d")
    assert 0.7 <= sum(hits[200:]) / 200 <= 0.9


def test_estimators_survive_json() -> None:
    path = trained(count=30)
    copy = PathEstimator.from_json(json.loads(json.dumps(path.to_json())))
    assert copy.to_json() == path.to_json()
    fresh = PathEstimator.from_json(path.to_json())
    assert copy.remaining("correction", "revise", 2, "d", 3.0) == fresh.remaining(
        "correction", "revise", 2, "d", 3.0
    )
    outputs = OutputEstimator()
    outputs.observe("s", "p", "d", 33.0)
    restored = OutputEstimator.from_json(json.loads(json.dumps(outputs.to_json())))
    assert restored.estimate("s", "p", "d") == outputs.estimate("s", "p", "d")


def test_calibration_of_known_numbers() -> None:
    pairs = [(Estimate(10.0, 8.0, 12.0), 8.0), (Estimate(10.0, 8.0, 12.0), 20.0)]
    report = calibrate(pairs)
    assert report.mape == pytest.approx((0.25 + 0.5) / 2)
    assert report.bias == pytest.approx(-8.0 / 28.0)
    assert report.coverage == 0.5
    with pytest.raises(ValueError, match="no prediction"):
        calibrate([])
