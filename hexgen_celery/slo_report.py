"""What a set of finished questions says about deadlines: attainment and latency percentiles. Pure.

A question without an answer counts as a missed deadline; latencies are those of answered ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hexgen_celery.answers import Answer, Outcome


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one question in one SLO class; `status` is `lost` where none was seen."""

    slo_class: str
    status: str
    latency_seconds: float | None
    deadline_met: bool

    @classmethod
    def of(cls, slo_class: str, outcome: Outcome | None) -> Ending:
        """Read from an outcome; None is a question without a terminal state."""
        if outcome is None:
            return cls(slo_class, "lost", None, False)
        if isinstance(outcome, Answer):
            return cls(slo_class, "answered", outcome.latency_seconds, outcome.deadline_met)
        return cls(slo_class, outcome.status, outcome.latency_seconds, False)


@dataclass(frozen=True, slots=True)
class SloReport:
    """Counts, SLO attainment (0 to 1) and latency percentiles in seconds (None without answers)."""

    questions: int
    answered: int
    lost: int
    attainment: float
    attainment_by_class: Mapping[str, float]
    p50_seconds: float | None
    p95_seconds: float | None

    @classmethod
    def of(cls, endings: Sequence[Ending]) -> SloReport:
        """Summarize `endings`."""
        latencies = [
            ending.latency_seconds
            for ending in endings
            if ending.status == "answered" and ending.latency_seconds is not None
        ]
        classes = sorted({ending.slo_class for ending in endings})
        return cls(
            questions=len(endings),
            answered=sum(ending.status == "answered" for ending in endings),
            lost=sum(ending.status == "lost" for ending in endings),
            attainment=attainment(endings),
            attainment_by_class={
                name: attainment([ending for ending in endings if ending.slo_class == name])
                for name in classes
            },
            p50_seconds=percentile(latencies, 0.50),
            p95_seconds=percentile(latencies, 0.95),
        )

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return asdict(self)


def attainment(endings: Sequence[Ending]) -> float:
    """The share of questions answered by their deadline; 0 without questions."""
    return sum(ending.deadline_met for ending in endings) / len(endings) if endings else 0.0


def percentile(values: Iterable[float], share: float) -> float | None:
    """The nearest-rank percentile: the least value with at least `share` of all at or below it."""
    ordered = sorted(values)
    return ordered[max(1, math.ceil(share * len(ordered))) - 1] if ordered else None
