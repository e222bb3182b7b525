"""What a run found out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hexgen_celery.simulator.bounds import Bounds
from hexgen_celery.simulator.observation import RequestRecord


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """One measured question. Times in simulated seconds; `finished` is infinite if it never was."""

    number: int
    question: str
    database: str
    slo_class: str
    tenant: str
    submitted: float
    finished: float
    deadline: float
    fastest_seconds: float

    @property
    def latency(self) -> float:
        """Seconds from submission to the end."""
        return self.finished - self.submitted

    @property
    def met(self) -> bool:
        """Whether it ended by its deadline."""
        return self.finished <= self.deadline


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """How the concurrent chat requests fared: count, 95th percentile (seconds), share in time."""

    requests: int
    p95: float
    attainment: float


@dataclass(frozen=True, slots=True)
class StabilityRule:
    """A run is unstable when the backlog grows through it.

    The backlog is the number of open questions seen by arriving ones. It grows when its mean over
    the last third exceeds the one over the first third by more than `tolerance` of the questions
    that arrived in between, and by more than the `slack` (questions) by which it fluctuates anyway.
    """

    tolerance: float = 0.05
    slack: float = 20.0

    def growth(self, backlog: Sequence[int]) -> float:
        """Share of the arrivals that stayed behind."""
        third = len(backlog) // 3
        if third == 0:
            return 0.0
        first, last = sum(backlog[:third]) / third, sum(backlog[-third:]) / third
        return (last - first) / (len(backlog) - third)

    def stable(self, backlog: Sequence[int]) -> bool:
        """Whether the backlog kept within bounds."""
        between = len(backlog) - len(backlog) // 3
        return self.growth(backlog) * between <= max(self.tolerance * between, self.slack)


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """One run's outcome; latencies in simulated seconds over the measured questions.

    `throughput` counts the answers per second between the first and the last measured arrival;
    `utilisation` is the share of that window in which a pool's instances computed;
    `tokens_per_step` how many tokens they generated in a step, over the whole run; `cache_hits` the
    share of prompt tokens found in the prefix caches.
    """

    dispatch: str
    order: str
    admission: str
    stealing: str
    rate: float
    seed: int
    slo_base_seconds: float
    questions: tuple[QuestionRecord, ...]
    requests: tuple[RequestRecord, ...]
    throughput: float
    stable: bool
    backlog_growth: float
    utilisation: dict[str, float]
    tokens_per_step: dict[str, float]
    cache_hits: float
    preemptions: int
    bounds: Bounds
    chat: ChatSummary | None
    finished_requests: int
    simulated_seconds: float
    wall_seconds: float

    def percentile(self, share: float, slo_class: str | None = None) -> float:
        """Latency that `share` of the questions (of one class) do not exceed, interpolated."""
        return percentile([q.latency for q in self._of(slo_class)], share)

    def attainment(self, slo_class: str | None = None) -> float:
        """Share of the questions (of one class) that met their deadline."""
        chosen = self._of(slo_class)
        return sum(question.met for question in chosen) / len(chosen) if chosen else math.nan

    def attainment_at(self, scale: float) -> float:
        """Share that would have met deadlines `scale` times as far away."""
        met = (q.latency <= scale * (q.deadline - q.submitted) for q in self.questions)
        return sum(met) / len(self.questions)

    @property
    def mean(self) -> float:
        """Mean latency."""
        return sum(question.latency for question in self.questions) / len(self.questions)

    @property
    def unanswered(self) -> int:
        """Measured questions that never ended."""
        return sum(math.isinf(question.finished) for question in self.questions)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the SLO classes that occurred."""
        return tuple(sorted({question.slo_class for question in self.questions}))

    @property
    def simulated_seconds_per_second(self) -> float:
        """How many times faster than real time the run was."""
        return self.simulated_seconds / self.wall_seconds if self.wall_seconds else math.inf

    def summary(self) -> dict[str, Any]:
        """The figures as plain JSON values (infinities as None)."""
        figures: dict[str, Any] = {
            "dispatch": self.dispatch,
            "order": self.order,
            "admission": self.admission,
            "stealing": self.stealing,
            "rate": self.rate,
            "seed": self.seed,
            "questions": len(self.questions),
            "p50": self.percentile(0.5),
            "p95": self.percentile(0.95),
            "p99": self.percentile(0.99),
            "mean": self.mean,
            "throughput": self.throughput,
            "attainment": self.attainment(),
            "attainment_by_class": {name: self.attainment(name) for name in self.classes},
            "slo_base_seconds": self.slo_base_seconds,
            "stable": self.stable,
            "backlog_growth": self.backlog_growth,
            "unanswered": self.unanswered,
            "utilisation": self.utilisation,
            "tokens_per_step": self.tokens_per_step,
            "cache_hits": self.cache_hits,
            "preemptions": self.preemptions,
            "bound_p50": self.bounds.latency_p50,
            "bound_p95": self.bounds.latency_p95,
            "bound_throughput": self.bounds.throughput,
            "simulated_seconds": self.simulated_seconds,
            "simulated_seconds_per_second": self.simulated_seconds_per_second,
        }
        if self.chat:
            figures["chat_p95"] = self.chat.p95
            figures["chat_attainment"] = self.chat.attainment
        return {name: _finite(value) for name, value in figures.items()}

    def _of(self, slo_class: str | None) -> list[QuestionRecord]:
        return [q for q in self.questions if slo_class is None or q.slo_class == slo_class]


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0 to 1) of `values` do not exceed, linearly interpolated; NaN for
    none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below, above = ordered[math.floor(position)], ordered[math.ceil(position)]
    if below == above or math.isinf(above):
        return above
    return below + (above - below) * (position - math.floor(position))


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
