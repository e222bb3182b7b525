"""The recent past of a deployment in the simulator's terms. Pure.

Emulated instances may run faster than their profiles; the simulator knows profiles only. So times
of the wall clock are multiplied by that speed on the way in, and losses divided by it on the way
out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hexgen_celery.coordination.state import WorkflowRecord
from hexgen_celery.core.fleet import Fleet, FleetInstance
from hexgen_celery.core.profiles import Profile
from hexgen_celery.instances import InstanceRecord
from hexgen_celery.tracing.history import RecordedQuestions
from hexgen_celery.tuning import Outcome
from hexgen_celery.workloads import Workload


@dataclass(frozen=True, slots=True)
class LiveFleet:
    """The instances that serve `fleet.model` now, and how much faster than their profiles."""

    fleet: Fleet
    speed: float


def live_fleet(
    records: Sequence[InstanceRecord], profile_of: Callable[[str], Profile]
) -> LiveFleet | None:
    """The fleet of the model that most of `records` (those alive) serve; None without any."""
    if not records:
        return None
    ((model, _),) = Counter(record.model for record in records).most_common(1)
    serving = [record for record in records if record.model == model]
    instances = tuple(
        FleetInstance(record.name, record.queue, replace(profile_of(record.profile), model=model))
        for record in sorted(serving, key=lambda record: record.name)
    )
    return LiveFleet(Fleet("live", model, instances), serving[0].speed)


def sped_up(workload: Workload, speed: float) -> Workload:
    """`workload` with arrivals and SLOs in the seconds of its instances' profiles."""
    if speed == 1.0:
        return workload
    questions = tuple(
        replace(
            one,
            arrival=None if one.arrival is None else one.arrival * speed,
            slo_seconds=None if one.slo_seconds is None else one.slo_seconds * speed,
        )
        for one in workload.questions
    )
    return Workload(workload.name, questions)


def measured_outcomes(recorded: RecordedQuestions, since: float = 0.0) -> list[Outcome]:
    """What became of the questions submitted after `since` (Unix seconds), by the wall clock.

    Those that failed or expired have no end.
    """
    answered = [
        Outcome(_latency(record), record.submission.slo_seconds)
        for record in recorded.records
        if record.submission.submitted_at >= since
    ]
    missed = sum(asked.submitted_at >= since for asked in recorded.missed)
    return answered + [Outcome(math.inf, 1.0)] * missed


def arrival_rate(recorded: RecordedQuestions, since: float = 0.0) -> float:
    """Questions per second among those submitted after `since`; 0 where there are too few."""
    asked = (*(record.submission for record in recorded.records), *recorded.missed)
    times = sorted(one.submitted_at for one in asked if one.submitted_at >= since)
    if len(times) < 2 or times[-1] <= times[0]:
        return 0.0
    return (len(times) - 1) / (times[-1] - times[0])


def _latency(record: WorkflowRecord) -> float:
    finished = record.finished_at
    return math.inf if finished is None else finished - record.submission.submitted_at
