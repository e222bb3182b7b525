"""Scoring predicted SQL against gold by running both under the same limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from hexgen_celery.evaluation.questions import GoldQuestion
from hexgen_celery.sql.execution import (
    DatabaseFile,
    ExecuteRequest,
    ExecuteResult,
    Executor,
    StatementLimits,
)
from hexgen_celery.sql.metrics import (
    VES_LOWEST_REWARD,
    execution_match,
    r_ves,
    soft_f1,
    spider_match,
    time_ratio,
    ves_reward,
)

EVALUATION_LIMITS = StatementLimits(seconds=30.0, rows=500_000, result_bytes=32_000_000)
"""BIRD's 30 seconds; a result beyond the other two never matches."""

LEAST_SECONDS = 1e-6
"""The clock's grain: a statement that took no measurable time took this."""

OnVerdict = Callable[["Verdict"], None]
Match = Callable[[GoldQuestion, ExecuteResult, ExecuteResult], bool]
"""Whether the predicted result answers the question as the gold result does; both ran fully."""


def ignore(_verdict: Verdict) -> None:
    """Report nothing."""


def bird_match(_question: GoldQuestion, predicted: ExecuteResult, gold: ExecuteResult) -> bool:
    """BIRD's EX."""
    return execution_match(predicted.rows, gold.rows)


def spider_result_match(
    question: GoldQuestion, predicted: ExecuteResult, gold: ExecuteResult
) -> bool:
    """Spider's execution match."""
    return spider_match(predicted.rows, gold.rows, question.ordered)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one prediction compares. `answered` means that there was SQL to run at all.

    `status` is the predicted statement's, or `missing`; `gold_status` the gold's. `seconds` is the
    predicted statement's time. `reward` is BIRD's for its speed, 0 when it is wrong, None when
    nobody timed it.
    """

    key: str
    database: str
    difficulty: str
    answered: bool
    correct: bool
    soft_f1: float
    status: str
    gold_status: str
    error: str = ""
    seconds: float = 0.0
    reward: float | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """Questions, how many had an answer and how many were right."""

    questions: int
    answered: int
    correct: int

    @property
    def ex(self) -> float:
        """The share of right answers among all questions, answered or not; 0 of 0 is 0."""
        return self.correct / self.questions if self.questions else 0.0

    def to_json(self) -> dict[str, Any]:
        """The counts and their share as plain values."""
        return {
            "questions": self.questions,
            "answered": self.answered,
            "correct": self.correct,
            "ex": self.ex,
        }


@dataclass(frozen=True, slots=True)
class Score:
    """The verdicts of a run, in the order of the questions."""

    verdicts: tuple[Verdict, ...] = field(default_factory=tuple)

    @property
    def total(self) -> Tally:
        """Over all questions."""
        return _tally(self.verdicts)

    @property
    def by_difficulty(self) -> dict[str, Tally]:
        """By the set's own difficulty words, in the order in which they first occur."""
        return {name: _tally(group) for name, group in self._groups("difficulty").items()}

    @property
    def by_database(self) -> dict[str, Tally]:
        """By database, in the order in which they first occur."""
        return {name: _tally(group) for name, group in self._groups("database").items()}

    @property
    def soft_f1(self) -> float:
        """The mean Soft-F1, from 0 to 1."""
        scores = [verdict.soft_f1 for verdict in self.verdicts]
        return sum(scores) / len(scores) if scores else 0.0

    @property
    def r_ves(self) -> float | None:
        """BIRD's R-VES in percent; None where the statements were not timed."""
        rewards = [verdict.reward for verdict in self.verdicts if verdict.reward is not None]
        return r_ves(rewards) if rewards and len(rewards) == len(self.verdicts) else None

    def to_json(self) -> dict[str, Any]:
        """Totals as plain values: `ex`, `questions`, `answered`, `correct`, `by_difficulty`, …"""
        return {
            **self.total.to_json(),
            "soft_f1": self.soft_f1,
            "r_ves": self.r_ves,
            "by_difficulty": _json_of(self.by_difficulty),
            "by_database": _json_of(self.by_database),
        }

    def _groups(self, attribute: str) -> dict[str, list[Verdict]]:
        groups: dict[str, list[Verdict]] = {}
        for verdict in self.verdicts:
            groups.setdefault(getattr(verdict, attribute), []).append(verdict)
        return groups


def _tally(verdicts: Iterable[Verdict]) -> Tally:
    listed = list(verdicts)
    return Tally(
        questions=len(listed),
        answered=sum(verdict.answered for verdict in listed),
        correct=sum(verdict.correct for verdict in listed),
    )


def _json_of(tallies: Mapping[str, Tally]) -> dict[str, Any]:
    return {name: tally.to_json() for name, tally in tallies.items()}


@dataclass(frozen=True, slots=True)
class Scorer:
    """Runs gold and prediction of each question and compares, `parallel` questions at a time.

    `timings`: how often the statements of a right answer are timed for R-VES (BIRD: 100); 0 never.
    """

    executor: Executor
    files: Mapping[str, DatabaseFile]
    limits: StatementLimits = EVALUATION_LIMITS
    match: Match = bird_match
    parallel: int = 2
    timings: int = 0

    def score(
        self,
        questions: Sequence[GoldQuestion],
        predictions: Mapping[str, str],
        on_verdict: OnVerdict = ignore,
    ) -> Score:
        """Compare `predictions` (question key → SQL); a question without one counts as wrong."""

        def judge(question: GoldQuestion) -> Verdict:
            verdict = self.judge(question, predictions.get(question.key, ""))
            on_verdict(verdict)
            return verdict

        with ThreadPoolExecutor(self.parallel) as threads:
            return Score(tuple(threads.map(judge, questions)))

    def judge(self, question: GoldQuestion, sql: str) -> Verdict:
        """Compare one prediction. An error or a time-out, on either side, never matches."""
        unrewarded = 0.0 if self.timings else None
        if not sql.strip():
            return replace(_verdict(question, None, None, False), reward=unrewarded)
        predicted = self._run(question, sql)
        gold = self._run(question, question.gold)
        comparable = all(result.ok and not result.truncated for result in (predicted, gold))
        correct = comparable and self.match(question, predicted, gold)
        verdict = _verdict(question, predicted, gold, correct, comparable)
        reward = self._reward(question, sql) if correct and self.timings else unrewarded
        return replace(verdict, reward=reward)

    def _reward(self, question: GoldQuestion, sql: str) -> float:
        """BIRD's reward for the speed of a right prediction; gold and it run in turn."""
        ours, theirs = [], []
        for _ in range(self.timings):
            predicted, gold = self._run(question, sql), self._run(question, question.gold)
            if predicted.ok and gold.ok:
                ours.append(max(predicted.seconds, LEAST_SECONDS))
                theirs.append(max(gold.seconds, LEAST_SECONDS))
        return ves_reward(time_ratio(theirs, ours)) if ours else VES_LOWEST_REWARD

    def _run(self, question: GoldQuestion, sql: str) -> ExecuteResult:
        file = self.files[question.database]
        return self.executor.execute(ExecuteRequest(file, sql, self.limits))


def _verdict(
    question: GoldQuestion,
    predicted: ExecuteResult | None,
    gold: ExecuteResult | None,
    correct: bool,
    comparable: bool = False,
) -> Verdict:
    return Verdict(
        key=question.key,
        database=question.database,
        difficulty=question.difficulty,
        answered=predicted is not None,
        correct=correct,
        soft_f1=soft_f1(predicted.rows, gold.rows) if comparable and predicted and gold else 0.0,
        status=_status(predicted),
        gold_status=_status(gold),
        error=predicted.error if predicted else "",
        seconds=predicted.seconds if predicted else 0.0,
    )


def _status(result: ExecuteResult | None) -> str:
    if result is None:
        return "missing"
    return "truncated" if result.truncated else result.status
