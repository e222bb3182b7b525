"""When questions arrive: one small class per process, chosen by name.

Each turns the same unit of randomness into times for any rate, so that runs with one seed see the
same pattern stretched or compressed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from hexgen_celery.core.registry import NoParameters, Registry


class ArrivalProcess(Protocol):
    """Draws arrival times: `count` questions, seconds from 0, at a mean of `rate` per second."""

    def times(self, count: int, rate: float, rng: random.Random) -> list[float]: ...


ARRIVALS: Registry[ArrivalProcess] = Registry("arrival process")


def build_arrivals(name: str, **parameters: Any) -> ArrivalProcess:
    """Build the process `name`; raises `UnknownName` or `InvalidParameter`."""
    return ARRIVALS.build(name, **parameters)


def unit_poisson(count: int, rng: random.Random) -> Iterator[float]:
    """Arrival times of a Poisson process of rate 1."""
    return accumulate(rng.expovariate(1.0) for _ in range(count))


@ARRIVALS.register("poisson")
class Poisson:
    """Independent arrivals at a constant rate."""

    def __init__(self, _parameters: NoParameters) -> None:
        pass

    def times(self, count: int, rate: float, rng: random.Random) -> list[float]:
        return [at / rate for at in unit_poisson(count, rng)]


@dataclass(frozen=True, slots=True)
class GammaParameters:
    """`cv`: coefficient of variation of the gaps; 1 is Poisson, 2 comes in bursts."""

    cv: float = 2.0

    def __post_init__(self) -> None:
        if self.cv <= 0:
            raise ValueError(f"cv must be positive, got {self.cv}")


@ARRIVALS.register("gamma", GammaParameters)
class GammaRenewal:
    """Bursty arrivals: gamma-distributed gaps."""

    def __init__(self, parameters: GammaParameters) -> None:
        self._variance = parameters.cv**2

    def times(self, count: int, rate: float, rng: random.Random) -> list[float]:
        gaps = (rng.gammavariate(1.0 / self._variance, self._variance) for _ in range(count))
        return [at / rate for at in accumulate(gaps)]


@dataclass(frozen=True, slots=True)
class DiurnalParameters:
    """The rate swings by `amplitude` (share of the mean) `cycles` times within the run."""

    amplitude: float = 0.5
    cycles: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.amplitude < 1:
            raise ValueError(f"amplitude must be in [0, 1), got {self.amplitude}")
        if self.cycles <= 0:
            raise ValueError(f"cycles must be positive, got {self.cycles}")


@ARRIVALS.register("diurnal", DiurnalParameters)
class Diurnal:
    """A Poisson process whose rate follows a sine, from its mean upwards first."""

    def __init__(self, parameters: DiurnalParameters) -> None:
        self._amplitude = parameters.amplitude
        self._cycles = parameters.cycles

    def times(self, count: int, rate: float, rng: random.Random) -> list[float]:
        period = count / self._cycles
        return [self._unwarp(at, period) / rate for at in unit_poisson(count, rng)]

    def _unwarp(self, target: float, period: float) -> float:
        """The time by which `target` arrivals are expected, at a mean rate of 1; by bisection."""
        low, high = 0.0, target + period
        while high - low > 1e-9 * (1.0 + target):
            middle = (low + high) / 2
            low, high = (middle, high) if self._expected(middle, period) < target else (low, middle)
        return high

    def _expected(self, at: float, period: float) -> float:
        turn = 2 * math.pi / period
        return at + self._amplitude / turn * (1 - math.cos(turn * at))


@ARRIVALS.register("doubling")
class Doubling:
    """A Poisson process whose rate doubles after half of the questions."""

    def __init__(self, _parameters: NoParameters) -> None:
        pass

    def times(self, count: int, rate: float, rng: random.Random) -> list[float]:
        half = count // 2
        gaps = (rng.expovariate(1.0) / (1.0 if n < half else 2.0) for n in range(count))
        return [at / rate for at in accumulate(gaps)]


@ARRIVALS.register("regular")
class Regular:
    """One question every 1/rate seconds."""

    def __init__(self, _parameters: NoParameters) -> None:
        pass

    def times(self, count: int, rate: float, _rng: random.Random) -> list[float]:
        return [number / rate for number in range(count)]
