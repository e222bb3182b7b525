"""The recent past of one quantity: decayed mean and quantiles from a bounded window."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

# A summary is renewed when one in so many of its values is new.
SUMMARY_SHARE = 16


class Estimate(NamedTuple):
    """A quantity in its own unit: mean, 10th and 90th percentile."""

    mean: float
    p10: float
    p90: float

    def blend(self, other: Estimate, weight: float) -> Estimate:
        """This estimate with `weight` in [0, 1], the other with the rest."""
        rest = 1.0 - weight
        return Estimate(*(weight * a + rest * b for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class LearningRates:
    """How estimates follow observations.

    `window`: observations kept per key. `decay`: weight of an observation relative to the next
    newer one. `prior_strength`: observations that the coarser level counts for. `width_rate`: step
    by which an interval's log width follows its misses.
    """

    window: int = 100
    decay: float = 0.99
    prior_strength: float = 4.0
    width_rate: float = 0.05

    def __post_init__(self) -> None:
        if self.window < 1 or not 0.0 < self.decay <= 1.0 or self.prior_strength < 0:
            raise ValueError(
                "window must be at least 1, decay in (0, 1], prior_strength not negative; got "
                f"{self.window}, {self.decay}, {self.prior_strength}"
            )


@dataclass(slots=True)
class DecayedSample:
    """The last `rates.window` values, newest last.

    The summary is renewed once a sixteenth of the values is new, since sorting at each observation
    would cost more than a simulated question.
    """

    rates: LearningRates
    values: deque[float] = field(default_factory=deque)
    _summary: Estimate | None = None
    _unseen: int = 0

    def add(self, value: float) -> None:
        """Take one observation."""
        self.values.append(value)
        if len(self.values) > self.rates.window:
            self.values.popleft()
        self._unseen += 1

    def summary(self) -> Estimate:
        """Decayed mean and quantiles; raises `ValueError` when nothing was observed."""
        if self._summary is None or self._unseen * SUMMARY_SHARE >= len(self.values):
            self._summary = weighted_summary(self.values, self.rates.decay)
            self._unseen = 0
        return self._summary


def weighted_summary(values: Iterable[float], decay: float) -> Estimate:
    """Summary of `values` (oldest first), each weighing `decay` times the next newer one."""
    weighted: list[tuple[float, float]] = []
    weight = 1.0
    for value in reversed(list(values)):
        weighted.append((value, weight))
        weight *= decay
    if not weighted:
        raise ValueError("nothing was observed")
    total = sum(weight for _, weight in weighted)
    mean = sum(value * weight for value, weight in weighted) / total
    weighted.sort()
    return Estimate(mean, _quantile(weighted, 0.1 * total), _quantile(weighted, 0.9 * total))


def _quantile(weighted: Sequence[tuple[float, float]], mass: float) -> float:
    """The value at which the cumulated weight reaches `mass`."""
    cumulated = 0.0
    for value, weight in weighted:
        cumulated += weight
        if cumulated >= mass:
            return value
    return weighted[-1][0]


@dataclass(slots=True)
class BackOff:
    """Samples at several levels of detail; the finer shrink towards the coarser.

    A key is a chain from the finest to the coarsest level. With n observations at a level and the
    prior strength k, the level weighs n / (n + k) and what the coarser levels say the rest.
    """

    prior: Estimate
    rates: LearningRates = field(default_factory=LearningRates)
    samples: dict[Hashable, DecayedSample] = field(default_factory=dict)

    def observe(self, chain: Sequence[Hashable], value: float) -> None:
        """Take one observation at every level."""
        for key in chain:
            if key not in self.samples:
                self.samples[key] = DecayedSample(self.rates)
            self.samples[key].add(value)

    def estimate(self, chain: Sequence[Hashable]) -> Estimate:
        """The blended estimate for the finest key of the chain."""
        estimate = self.prior
        for key in reversed(chain):
            sample = self.samples.get(key)
            if sample is not None:
                count = len(sample.values)
                weight = count / (count + self.rates.prior_strength)
                estimate = sample.summary().blend(estimate, weight)
        return estimate

    def to_rows(self) -> list[dict[str, object]]:
        """All samples as plain values; keys must be tuples of plain values."""
        return [
            {"key": list(key) if isinstance(key, tuple) else [key], "values": list(sample.values)}
            for key, sample in self.samples.items()
        ]

    def load_rows(self, rows: Iterable[dict[str, list[float]]]) -> None:
        """Replace all samples by what `to_rows` gave."""
        self.samples = {
            tuple(row["key"]): DecayedSample(self.rates, deque(row["values"])) for row in rows
        }
