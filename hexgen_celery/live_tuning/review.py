"""How an earlier prediction came out, and what follows from that. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hexgen_celery.tuning import Objective, Outcome


@dataclass(frozen=True, slots=True)
class ReviewRules:
    """`tolerance`: relative miss up to which a prediction was right.

    It is judged on at least `least` questions, and only where they came at a rate within `drift`
    (relative) of the predicted one: under another load it was not a prediction.
    """

    tolerance: float = 0.3
    drift: float = 0.3
    least: int = 40
    most_backoff: int = 16


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was expected: the loss in the objective's unit (seconds of the wall clock), at a rate in
    questions per second. `incumbent_measured`: the loss measured before the move, if any. One that
    is not `steady` was of a backlog that grows, whose loss depends on how long one looks."""

    loss: float
    rate: float
    moved: bool
    incumbent_measured: float | None = None
    steady: bool = True


@dataclass(frozen=True, slots=True)
class Review:
    """What was measured since. `error` is relative, positive when it was worse than predicted.

    `wrong`: beyond the tolerance. `revert`: worse than before the move it was made for.
    """

    questions: int
    rate: float
    measured: float
    error: float
    wrong: bool
    revert: bool


def review(
    prediction: Prediction,
    outcomes: Sequence[Outcome],
    rate: float,
    objective: Objective,
    rules: ReviewRules,
) -> Review | None:
    """Compare `prediction` with the questions that came since, at `rate`; None if it says little.

    A question without an answer has an infinite latency.
    """
    if len(outcomes) < rules.least or is_void(prediction, len(outcomes), rate, rules):
        return None
    measured = objective.loss(outcomes, rate)
    error = _relative(measured, prediction.loss)
    wrong = abs(error) > rules.tolerance
    before = prediction.incumbent_measured
    worse = before is not None and measured > before
    return Review(len(outcomes), rate, measured, error, wrong, prediction.moved and wrong and worse)


def is_void(prediction: Prediction, questions: int, rate: float, rules: ReviewRules) -> bool:
    """Whether `prediction` will never be judged: it was of a growing backlog, or so many
    `questions` came at another rate that the load is a different one now."""
    if prediction.rate <= 0 or not prediction.steady:
        return True
    drifted = abs(rate - prediction.rate) > rules.drift * prediction.rate
    return drifted and questions >= rules.least


def next_backoff(backoff: int, seen: Review | None, rules: ReviewRules) -> int:
    """By how much the interval is stretched: doubled when wrong, back to 1 when right."""
    if seen is None:
        return backoff
    return min(rules.most_backoff, 2 * backoff) if seen.wrong else 1


def _relative(measured: float, predicted: float) -> float:
    if predicted > 0:
        return measured / predicted - 1
    return math.inf if measured > 0 else 0.0
