"""How long a question still needs when its DAG is only partly revealed.

How many correction rounds will come is not known until they are over. So what follows a request is
a distribution, learnt from finished workflows: the *tail*, the seconds from the end of a request to
the end of its question, by the request's step and round. That is conditional on what has been seen:
after the third correction only workflows with at least three corrections speak.

The mean left is the request's own time plus the mean tail. The spread is that of own time and tail
together, as observed (they are correlated), widened or narrowed until one truth in ten falls below
p10 and one in ten above p90: adaptive conformal inference (Gibbs and Candès, 2021), here on the
logarithm of the widths, per step and round.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hexgen_celery.core.estimates.critical_path import PathNode, in_order, rounds, tails
from hexgen_celery.core.estimates.samples import BackOff, Estimate, LearningRates

# What is assumed to follow a request when no workflow was ever observed.
UNKNOWN_TAIL = Estimate(10.0, 0.0, 60.0)

# Tolerated share of truths outside the interval, on each side.
OUTSIDE = 0.1

Chain = list[tuple[str | int, ...]]


@dataclass(slots=True)
class Widths:
    """Natural logarithms of the factors on the distances mean − p10 and p90 − mean."""

    low: float = 0.0
    high: float = 0.0

    def apply(self, mean: float, shape: Estimate) -> Estimate:
        """The interval around `mean` with the scaled distances of `shape`."""
        low = (shape.mean - shape.p10) * math.exp(self.low)
        high = (shape.p90 - shape.mean) * math.exp(self.high)
        return Estimate(mean, max(0.0, mean - low), mean + high)

    def learn(self, predicted: Estimate, true: float, rate: float) -> None:
        """Widen a side that missed, narrow one that held, towards `OUTSIDE` on each."""
        self.low += rate * ((true < predicted.p10) - OUTSIDE)
        self.high += rate * ((true > predicted.p90) - OUTSIDE)


UNLEARNT = Widths()


class PathEstimator:
    """Seconds of critical path left, backing off (step, round, database) → (step, round) → stage.

    The seconds are those the caller observes with: execution on a reference profile for a stable
    estimate, or wall time for one that follows the load.
    """

    def __init__(self, prior: Estimate = UNKNOWN_TAIL, rates: LearningRates | None = None) -> None:
        self._rates = rates or LearningRates()
        self._tails = BackOff(prior, self._rates)
        self._totals = BackOff(prior, self._rates)
        self._widths: dict[tuple[str, int], Widths] = {}

    def observe(self, workflow: Iterable[PathNode], database: str) -> None:
        """Learn from a finished workflow, all of whose requests are given."""
        ordered = in_order(workflow)
        tail, number = tails(ordered), rounds(ordered)
        for node in ordered:
            self._learn(node, number[node.node_id], database, tail[node.node_id])

    def knows(self, stage: str) -> bool:
        """Whether any request of this stage was observed."""
        return ("stage", stage) in self._tails.samples

    def tail(self, stage: str, step: str, round_number: int, database: str) -> Estimate:
        """Seconds from the end of such a request to the end of its question."""
        return self._tails.estimate(_chain(stage, step, round_number, database))

    def remaining(
        self, stage: str, step: str, round_number: int, database: str, own_seconds: float
    ) -> Estimate:
        """Seconds from the start of a request, which takes `own_seconds`, to its question's end."""
        chain = _chain(stage, step, round_number, database)
        mean = own_seconds + self._tails.estimate(chain).mean
        widths = self._widths.get((step, round_number), UNLEARNT)
        return widths.apply(mean, self._totals.estimate(chain))

    def to_json(self) -> dict[str, Any]:
        """The whole state as plain JSON values."""
        return {
            "prior": list(self._tails.prior),
            "tails": self._tails.to_rows(),
            "totals": self._totals.to_rows(),
            "widths": [
                [step, number, width.low, width.high]
                for (step, number), width in self._widths.items()
            ],
        }

    @classmethod
    def from_json(cls, state: dict[str, Any], rates: LearningRates | None = None) -> PathEstimator:
        """The estimator that `to_json` described."""
        estimator = cls(Estimate(*state["prior"]), rates)
        estimator._tails.load_rows(state["tails"])
        estimator._totals.load_rows(state["totals"])
        estimator._widths = {
            (step, number): Widths(low, high) for step, number, low, high in state["widths"]
        }
        return estimator

    def _learn(self, node: PathNode, round_number: int, database: str, tail: float) -> None:
        chain = _chain(node.stage, node.step, round_number, database)
        total = node.seconds + tail
        shape = self._totals.estimate(chain)
        widths = self._widths.setdefault((node.step, round_number), Widths())
        widths.learn(widths.apply(shape.mean, shape), total, self._rates.width_rate)
        self._tails.observe(chain, tail)
        self._totals.observe(chain, total)


def _chain(stage: str, step: str, round_number: int, database: str) -> Chain:
    return [
        ("database", step, round_number, database),
        ("round", step, round_number),
        ("stage", stage),
        ("all",),
    ]
