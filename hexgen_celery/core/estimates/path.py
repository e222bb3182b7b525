"""How long a question still needs when its DAG is only partly revealed.

How many correction rounds will come is not known until they are over. So what follows a request is
a distribution, learnt from finished workflows: the *tail*, the seconds from the end of a request to
the end of its question, by the request's step and round. That is conditional on what has been seen:
after the third correction only workflows with at least three corrections speak.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hexgen_celery.core.estimates.critical_path import PathNode, in_order, rounds, tails
from hexgen_celery.core.estimates.samples import BackOff, Estimate, LearningRates

# What is assumed to follow a request when no workflow was ever observed.
UNKNOWN_TAIL = Estimate(10.0, 0.0, 60.0)

Chain = list[tuple[str | int, ...]]


class PathEstimator:
    """Seconds of critical path left, backing off (step, round, database) → (step, round) → stage.

    The seconds are those the caller observes with: execution on a reference profile for a stable
    estimate, or wall time for one that follows the load.
    """

    def __init__(self, prior: Estimate = UNKNOWN_TAIL, rates: LearningRates | None = None) -> None:
        self._levels = BackOff(prior, rates or LearningRates())

    def observe(self, workflow: Iterable[PathNode], database: str) -> None:
        """Learn from a finished workflow, all of whose requests are given."""
        ordered = in_order(workflow)
        tail, number = tails(ordered), rounds(ordered)
        for node in ordered:
            chain = _chain(node.stage, node.step, number[node.node_id], database)
            self._levels.observe(chain, tail[node.node_id])

    def tail(self, stage: str, step: str, round_number: int, database: str) -> Estimate:
        """Seconds from the end of such a request to the end of its question."""
        return self._levels.estimate(_chain(stage, step, round_number, database))

    def remaining(
        self, stage: str, step: str, round_number: int, database: str, own: Estimate
    ) -> Estimate:
        """Seconds from the start of a request to the end of its question; `own` is its own time."""
        return own.plus(self.tail(stage, step, round_number, database))

    def to_json(self) -> dict[str, Any]:
        """The whole state as plain JSON values."""
        return {"prior": list(self._levels.prior), "samples": self._levels.to_rows()}

    @classmethod
    def from_json(cls, state: dict[str, Any], rates: LearningRates | None = None) -> PathEstimator:
        """The estimator that `to_json` described."""
        estimator = cls(Estimate(*state["prior"]), rates)
        estimator._levels.load_rows(state["samples"])
        return estimator


def _chain(stage: str, step: str, round_number: int, database: str) -> Chain:
    return [
        ("database", step, round_number, database),
        ("round", step, round_number),
        ("stage", stage),
        ("all",),
    ]
