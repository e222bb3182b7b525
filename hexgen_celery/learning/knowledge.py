"""All that is learnt: output lengths, remaining paths, stage times, and how far caches are true."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from hexgen_celery.core.estimates import (
    Calibration,
    Estimate,
    OutputEstimator,
    PathEstimator,
    calibrate,
    path_nodes,
    stage_seconds,
)
from hexgen_celery.core.estimates.critical_path import in_order, tails
from hexgen_celery.learning.lessons import QuestionLesson, RequestLesson

Pairs = deque[tuple[Estimate, float]]
Judged = tuple[str, Estimate, float]
"""What an estimate was about, the estimate, the truth."""

Truth = TypeVar("Truth")

OUTPUT_TOKENS = "output tokens"
REMAINING_SECONDS = "remaining seconds"


@dataclass(frozen=True, slots=True)
class KnowledgeRates:
    """`calibration`: predictions remembered with their truth. `decay`: weight of the past against
    the next observation, of stage times and caches. `instances`: how many are remembered, since
    those that register themselves may have ever new names."""

    calibration: int = 500
    decay: float = 0.95
    instances: int = 1000


@dataclass(slots=True)
class CacheTruth:
    """Cached tokens that servers reported against those that the shadow caches predicted."""

    predicted: float = 0.0
    reported: float = 0.0
    ever_reported: bool = False

    def observe(self, predicted: float, reported: float, decay: float) -> None:
        """Take one request."""
        self.ever_reported = self.ever_reported or reported > 0
        self.predicted = decay * self.predicted + predicted
        self.reported = decay * self.reported + reported

    @property
    def factor(self) -> float:
        """By what a prediction is to be multiplied. A server that never reported a hit is taken
        not to report them at all."""
        if not self.ever_reported or self.predicted <= 0:
            return 1.0
        return min(1.0, self.reported / self.predicted)


@dataclass(slots=True)
class TokenTruth:
    """Prompt tokens as a server counted them against ours, which go by the length of the text."""

    counted: float = 0.0
    reported: float = 0.0

    def observe(self, counted: float, reported: float, decay: float) -> None:
        """Take one request."""
        self.counted = decay * self.counted + counted
        self.reported = decay * self.reported + reported

    @property
    def factor(self) -> float:
        """By what our counts are to be multiplied."""
        return self.reported / self.counted if self.counted > 0 and self.reported > 0 else 1.0


class Knowledge:
    """What is known, with what it was learnt from. Not thread-safe while it learns."""

    def __init__(self, rates: KnowledgeRates | None = None) -> None:
        self._rates = rates or KnowledgeRates()
        self.questions = 0
        self.outputs = OutputEstimator()
        self.paths = PathEstimator()
        self.caches: dict[str, CacheTruth] = {}
        self.tokens: dict[str, TokenTruth] = {}
        self._stages: dict[str, dict[str, float]] = {}
        self._output_pairs: Pairs = deque(maxlen=self._rates.calibration)
        self._path_pairs: Pairs = deque(maxlen=self._rates.calibration)

    def learn(
        self,
        lesson: QuestionLesson,
        on_prediction: Callable[[str, Estimate, float], object] | None = None,
    ) -> None:
        """Take one finished question; `on_prediction` is told every estimate with its truth."""
        self.questions += 1
        judged: list[Judged] = []
        for request in lesson.requests:
            judged += self._learn_request(request)
        if lesson.whole and lesson.intervals:
            judged += self._learn_path(lesson)
        if on_prediction is not None:
            for about, estimate, true in judged:
                on_prediction(about, estimate, true)

    def output(self, stage: str, step: str, database: str) -> Estimate | None:
        """Output tokens of such a request; None where its step was never seen."""
        if not self.outputs.knows(step):
            return None
        return self.outputs.estimate(stage, step, database)

    def remaining(
        self, stage: str, step: str, round_number: int, database: str, own_seconds: float
    ) -> Estimate | None:
        """Seconds from a request's start to its question's end; None for a stage never seen."""
        if not self.paths.knows(stage):
            return None
        return self.paths.remaining(stage, step, round_number, database, own_seconds)

    def cache_factor(self, instance: str) -> float:
        """How much of what an instance is believed to have cached really is, in [0, 1]."""
        truth = self.caches.get(instance)
        return 1.0 if truth is None else truth.factor

    def token_factor(self, instances: Iterable[str]) -> float:
        """Server's tokens for one of ours, by the first of `instances` (of one model) that
        counted any."""
        seen = (truth for name in instances if (truth := self.tokens.get(name)) is not None)
        return next((truth.factor for truth in seen), 1.0)

    def stage_means(self, workflow: str) -> Mapping[str, float]:
        """Mean seconds that a question spends in each stage, in the order of the stages."""
        return self._stages.get(workflow, {})

    def calibration(self) -> dict[str, Calibration]:
        """How right the estimates of the recent past were, by what they are about."""
        pairs = {OUTPUT_TOKENS: self._output_pairs, REMAINING_SECONDS: self._path_pairs}
        return {name: calibrate(list(each)) for name, each in pairs.items() if each}

    def to_json(self) -> dict[str, Any]:
        """The whole state as plain JSON values."""
        return {
            "questions": self.questions,
            "outputs": self.outputs.to_json(),
            "paths": self.paths.to_json(),
            "stages": self._stages,
            "caches": {
                name: [truth.predicted, truth.reported, truth.ever_reported]
                for name, truth in self.caches.items()
            },
            "tokens": {
                name: [truth.counted, truth.reported] for name, truth in self.tokens.items()
            },
            "output_pairs": [[*estimate, true] for estimate, true in self._output_pairs],
            "path_pairs": [[*estimate, true] for estimate, true in self._path_pairs],
        }

    @classmethod
    def from_json(cls, state: dict[str, Any], rates: KnowledgeRates | None = None) -> Knowledge:
        """The knowledge that `to_json` described."""
        known = cls(rates)
        known.questions = state["questions"]
        known.outputs = OutputEstimator.from_json(state["outputs"])
        known.paths = PathEstimator.from_json(state["paths"])
        known._stages = state["stages"]
        known.caches = {name: CacheTruth(*values) for name, values in state["caches"].items()}
        known.tokens = {name: TokenTruth(*values) for name, values in state["tokens"].items()}
        known._output_pairs.extend(_pairs(state["output_pairs"]))
        known._path_pairs.extend(_pairs(state["path_pairs"]))
        return known

    def _learn_request(self, request: RequestLesson) -> list[Judged]:
        judged: list[Judged] = []
        if request.output_tokens > 0:
            if request.output_believed is not None:
                pair = (request.output_believed, request.output_tokens)
                self._output_pairs.append(pair)
                judged.append((OUTPUT_TOKENS, *pair))
            self.outputs.observe(
                request.stage, request.step, request.database, request.output_tokens
            )
        if request.input_counted > 0 and request.input_tokens > 0 and request.instance:
            tokens = self._latest(self.tokens, request.instance, TokenTruth)
            tokens.observe(request.input_counted, request.input_tokens, self._rates.decay)
        if request.cached_predicted is not None:
            truth = self._latest(self.caches, request.instance, CacheTruth)
            truth.observe(request.cached_predicted, request.cached_tokens, self._rates.decay)
        return judged

    def _latest(self, truths: dict[str, Truth], instance: str, new: Callable[[], Truth]) -> Truth:
        """What is known of `instance`, which is now the last to be forgotten."""
        truth = truths.pop(instance, None) or new()
        truths[instance] = truth
        if len(truths) > self._rates.instances:
            del truths[next(iter(truths))]
        return truth

    def _learn_path(self, lesson: QuestionLesson) -> list[Judged]:
        judged: list[Judged] = []
        nodes = path_nodes(lesson.intervals)
        tail = tails(in_order(nodes))
        own = {node.node_id: node.seconds for node in nodes}
        for request in lesson.requests:
            name, believed = request.node_id, request.remaining_believed
            if believed is not None and name in tail and own[name] + tail[name] > 0:
                pair = (believed, own[name] + tail[name])
                self._path_pairs.append(pair)
                judged.append((REMAINING_SECONDS, *pair))
        self.paths.observe(nodes, lesson.database)
        means = self._stages.setdefault(lesson.workflow, {})
        decay = self._rates.decay
        for stage, seconds in stage_seconds(lesson.intervals).items():
            means[stage] = decay * means.get(stage, seconds) + (1.0 - decay) * seconds
        return judged


def _pairs(rows: list[list[float]]) -> list[tuple[Estimate, float]]:
    return [(Estimate(*row[:3]), row[3]) for row in rows]
