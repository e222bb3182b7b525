"""The recent past as something to draw from."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from hexgen_celery.errors import InvalidWorkload
from hexgen_celery.simulator import PROTOCOL_CLASSES, Choice, SloClass
from hexgen_celery.workloads import Workload

# Below this many questions a 95th percentile rests on a handful of them.
SHORTEST_WINDOW = 40

# Gamma arrivals stay sensible within these coefficients of variation.
LEAST_CV, MOST_CV = 0.25, 4.0


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of recorded questions: which, how fast they came, how evenly, with which SLOs.

    `rate` in questions per second; `cv` is the coefficient of variation of the gaps. With
    `slo_base_seconds` None the classes multiply the workload's idle median.
    """

    workload: Workload
    rate: float
    cv: float = 1.0
    classes: tuple[SloClass, ...] = PROTOCOL_CLASSES
    slo_base_seconds: float | None = None

    @property
    def arrivals(self) -> Choice:
        """The arrival process that resembles the recorded one."""
        return Choice("gamma", {"cv": self.cv})


def window_of(workload: Workload, *, rate: float | None = None) -> Window:
    """Measure rate, burstiness and SLOs of a recorded trace.

    `rate` replaces the recorded one, and is needed where no arrivals were recorded.

    Raises:
        InvalidWorkload: if there are too few questions, or neither arrivals nor a rate.
    """
    if len(workload.questions) < SHORTEST_WINDOW:
        raise InvalidWorkload(
            f"{workload.name} has {len(workload.questions)} questions, too few to tune on",
            field="workload",
            hint=f"record at least {SHORTEST_WINDOW} questions",
        )
    if workload.recorded:
        measured, cv = _arrival_statistics(workload)
    elif rate is None:
        raise InvalidWorkload(
            f"{workload.name} does not say when its questions arrived",
            field="arrival",
            hint="give a rate (--rate), or tune on a trace with arrival times",
        )
    else:
        measured, cv = rate, 1.0
    classes = _recorded_classes(workload)
    return Window(
        workload=workload,
        rate=rate or measured,
        cv=cv,
        classes=classes or PROTOCOL_CLASSES,
        slo_base_seconds=1.0 if classes else None,
    )


def _arrival_statistics(workload: Workload) -> tuple[float, float]:
    times = sorted(question.arrival or 0.0 for question in workload.questions)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = statistics.fmean(gaps)
    if mean <= 0:
        raise InvalidWorkload(
            f"all questions of {workload.name} arrived at once",
            field="arrival",
            hint="give the rate that is meant (--rate)",
        )
    return 1.0 / mean, min(MOST_CV, max(LEAST_CV, statistics.pstdev(gaps) / mean))


def _recorded_classes(workload: Workload) -> tuple[SloClass, ...]:
    """One class per recorded SLO, or none where a question lacks it."""
    counts = Counter(question.slo_seconds for question in workload.questions)
    if None in counts:
        return ()
    total = len(workload.questions)
    return tuple(
        SloClass(f"{seconds:g} s", seconds, count / total)
        for seconds, count in sorted(counts.items(), key=lambda pair: pair[0] or 0.0)
        if seconds is not None
    )
