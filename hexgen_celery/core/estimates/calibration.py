"""Are the estimates right? Error and coverage over predictions and what came true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hexgen_celery.core.estimates.samples import Estimate

LEAST_JUDGED = 20


@dataclass(frozen=True, slots=True)
class Calibration:
    """`mape`: mean |predicted − true| / true. `bias`: mean (predicted − true) / mean true.
    `coverage`: share of truths within [p10, p90], which should be near 0.8. All fractions."""

    count: int
    mape: float
    bias: float
    coverage: float

    @property
    def telling(self) -> bool:
        """Whether so many were judged that the figures say something: the first predictions of a
        deployment rest on next to nothing."""
        return self.count >= LEAST_JUDGED


def calibrate(pairs: Sequence[tuple[Estimate, float]]) -> Calibration:
    """Compare predictions with positive truths; raises `ValueError` for none."""
    if not pairs:
        raise ValueError("no prediction to calibrate")
    count = len(pairs)
    errors = [abs(estimate.mean - true) / true for estimate, true in pairs]
    differences = sum(estimate.mean - true for estimate, true in pairs)
    inside = sum(estimate.p10 <= true <= estimate.p90 for estimate, true in pairs)
    return Calibration(
        count=count,
        mape=sum(errors) / count,
        bias=differences / sum(true for _, true in pairs),
        coverage=inside / count,
    )
