"""Arrival processes: their mean rate, their shape, and that randomness is shared between rates."""

from __future__ import annotations

import random
from statistics import mean, stdev

import pytest

from hexgen_celery.core.registry import InvalidParameter
from hexgen_celery.simulator import ARRIVALS
from hexgen_celery.simulator.arrivals import build_arrivals

COUNT = 20_000


def gaps(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]


@pytest.mark.parametrize(("name", "cv"), [("poisson", 1.0), ("gamma", 2.0), ("regular", 0.0)])
def test_renewal_processes_have_their_rate_and_variation(name: str, cv: float) -> None:
    between = gaps(build_arrivals(name).times(COUNT, 2.0, random.Random(1)))
    assert mean(between) == pytest.approx(0.5, rel=0.05)
    assert stdev(between) / mean(between) == pytest.approx(cv, rel=0.05, abs=0.01)


def test_doubling_doubles_half_way() -> None:
    between = gaps(build_arrivals("doubling").times(COUNT, 2.0, random.Random(1)))
    half = COUNT // 2
    assert mean(between[:half]) == pytest.approx(0.5, rel=0.05)
    assert mean(between[half:]) == pytest.approx(0.25, rel=0.05)


def test_a_day_has_its_peak_and_its_trough() -> None:
    times = build_arrivals("diurnal", amplitude=0.8, cycles=1.0).times(COUNT, 2.0, random.Random(1))
    day = COUNT / 2.0
    first = sum(at < day / 2 for at in times)
    # The integral of 1 + 0.8 sin over the first half of the day: 1/2 + 0.8/π of all.
    assert first / COUNT == pytest.approx(0.5 + 0.8 / 3.14159, abs=0.02)
    assert times[-1] == pytest.approx(day, rel=0.05)


@pytest.mark.parametrize("name", ARRIVALS.names())
def test_a_rate_only_stretches_the_pattern(name: str) -> None:
    slow = build_arrivals(name).times(50, 1.0, random.Random(3))
    fast = build_arrivals(name).times(50, 4.0, random.Random(3))
    assert slow == sorted(slow)
    assert [4 * at for at in fast] == pytest.approx(slow)


@pytest.mark.parametrize(
    ("name", "values"),
    [("gamma", {"cv": 0.0}), ("diurnal", {"amplitude": 1.0}), ("diurnal", {"cycles": 0.0})],
)
def test_impossible_parameters_are_refused(name: str, values: dict[str, float]) -> None:
    with pytest.raises(InvalidParameter, match=next(iter(values))):
        build_arrivals(name, **values)
