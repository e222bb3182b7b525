"""What tuning minimises."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from hexgen_celery.simulator.results import percentile


class Outcome(NamedTuple):
    """One simulated question: latency and allowed time, seconds."""

    latency: float
    slo: float


class Objective(StrEnum):
    """P95 latency, share of deadlines met, or answers in time per second."""

    P95 = "p95"
    ATTAINMENT = "attainment"
    GOODPUT = "goodput"

    def loss(self, outcomes: Sequence[Outcome], rate: float) -> float:
        """What is minimised: seconds, share of deadlines missed, or late questions per second.

        `rate` is the arrival rate in questions per second. All three are positive or zero.
        """
        if self is Objective.P95:
            return percentile([outcome.latency for outcome in outcomes], 0.95)
        missed = sum(o.latency > o.slo for o in outcomes) / len(outcomes)
        return missed * rate if self is Objective.GOODPUT else missed
