"""Which earlier prediction is to be judged, and whether the next move must wait for that. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hexgen_celery.live_tuning.entries import TuningEntry
from hexgen_celery.live_tuning.past import arrival_rate, measured_outcomes
from hexgen_celery.live_tuning.review import Review, ReviewRules, is_void, review
from hexgen_celery.tracing.history import RecordedQuestions
from hexgen_celery.tuning import Objective


@dataclass(frozen=True, slots=True)
class Judgement:
    """`pending`: the entry whose prediction stands, None where it was judged now or is void;
    `review`: how it came out, if that can be said now; `of`: the entry it is about."""

    pending: TuningEntry | None = None
    review: Review | None = None
    of: TuningEntry | None = None

    @property
    def holds(self) -> bool:
        """Whether a move must wait: the last one is not judged yet."""
        return self.pending is not None and self.pending.changed

    @property
    def reverts(self) -> bool:
        """Whether the last move is to be taken back."""
        return self.review is not None and self.review.revert


def judged(
    entries: Sequence[TuningEntry],
    past: RecordedQuestions,
    changed_at: float,
    objective: Objective,
    rules: ReviewRules,
) -> Judgement:
    """What the questions of `past` say of the prediction that is pending among `entries` (newest
    first). One made before `changed_at` was of another cluster."""
    pending = _pending(entries)
    if pending is None or pending.at < changed_at:
        return Judgement()
    outcomes = measured_outcomes(past, pending.at)
    rate = arrival_rate(past, pending.at)
    prediction = pending.prediction
    if is_void(prediction, len(outcomes), rate, rules):
        return Judgement()
    seen = review(prediction, outcomes, rate, objective, rules)
    return Judgement(pending) if seen is None else Judgement(None, seen, pending)


def _pending(entries: Sequence[TuningEntry]) -> TuningEntry | None:
    wanted = entries[0].pending if entries else None
    return next((entry for entry in entries if entry.at == wanted), None)
