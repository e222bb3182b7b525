"""How good the estimates of a question's critical path are, before and after its DAG is known.

Questions of the `test` split arrive one after another, drawn with replacement; estimates were
taught the `train` split and learn from every finished question (predict first, then learn).
Seconds are those of an average server of the cluster with the shared beginning cached.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from hexgen_celery.core.estimates import (
    Estimate,
    OutputEstimator,
    PathEstimator,
    PathNode,
    calibrate,
    critical_path,
)
from hexgen_celery.core.fleet import Fleet
from hexgen_celery.core.prefix import prefix_tokens
from hexgen_celery.profiles_io import load_fleet
from hexgen_celery.workloads import WorkloadQuestion, WorkloadRequest, read_workload
from tests.benchmarks.rows import BenchmarkSkipped, Row, measured

DATA = Path(os.environ.get("HEXGEN_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
WORKLOADS = ("trace1", "trace2", "financial")
SEEDS = range(5)
QUESTIONS = 600
WARMUP = 100
BATCH = 4.0

Pairs = list[tuple[Estimate, float]]


@dataclass(slots=True)
class Predictions:
    """Predicted and true critical paths of one run, seconds."""

    known: Pairs = field(default_factory=list)
    a_priori: Pairs = field(default_factory=list)
    trace_mean: Pairs = field(default_factory=list)


class Learner:
    """The estimators of one run, and the mean of all paths seen as the simplest predictor."""

    def __init__(self, fleet: Fleet) -> None:
        self._profiles = [instance.profile for instance in fleet.instances]
        self._outputs = OutputEstimator()
        self._paths = PathEstimator()
        self._seen: list[float] = []

    def true(self, line: WorkloadQuestion) -> float:
        """The critical path with the tokens that were really generated."""
        return critical_path(self._nodes(line, lambda request: request.output_tokens))

    def known(self, line: WorkloadQuestion) -> Estimate:
        """The critical path when all requests are known and their outputs are estimated."""
        seconds = critical_path(self._nodes(line, lambda request: self._output(request, line)))
        return Estimate(seconds, seconds, seconds)

    def a_priori(self, line: WorkloadQuestion) -> Estimate:
        """The path left when only the first request is known."""
        first = line.requests[0]
        own = self._seconds(first, self._output(first, line))
        return self._paths.remaining(first.stage, first.step, 0, line.database, own)

    def mean_so_far(self) -> Estimate:
        """The mean of all questions seen."""
        mean = fmean(self._seen)
        return Estimate(mean, mean, mean)

    def learn(self, line: WorkloadQuestion) -> None:
        """A question has finished."""
        for request in line.requests:
            self._outputs.observe(request.stage, request.step, line.database, request.output_tokens)
        nodes = self._nodes(line, lambda request: request.output_tokens)
        self._paths.observe(nodes, line.database)
        self._seen.append(critical_path(nodes))

    def _output(self, request: WorkloadRequest, line: WorkloadQuestion) -> float:
        return self._outputs.estimate(request.stage, request.step, line.database).mean

    def _nodes(
        self, line: WorkloadQuestion, output: Callable[[WorkloadRequest], float]
    ) -> list[PathNode]:
        return [
            PathNode(
                str(request.id),
                request.stage,
                request.step,
                tuple(map(str, request.after)),
                self._seconds(request, output(request)),
            )
            for request in line.requests
        ]

    def _seconds(self, request: WorkloadRequest, output: float) -> float:
        uncached = request.input_tokens - prefix_tokens(request.prefix(""))
        return fmean(
            profile.execution_seconds(uncached, request.input_tokens, output, BATCH)
            for profile in self._profiles
        )


def run() -> list[Row]:
    """Errors and coverage per workload, over seeds."""
    if not (DATA / "workloads").is_dir():
        raise BenchmarkSkipped(f"the shared data is absent at {DATA}")
    return [row for name in WORKLOADS for row in _rows(name)]


def _rows(name: str) -> list[Row]:
    runs = [_predict(name, seed) for seed in SEEDS]
    known = [calibrate(run.known).mape for run in runs]
    a_priori = [calibrate(run.a_priori) for run in runs]
    simplest = [calibrate(run.trace_mean).mape for run in runs]
    against = [ours.mape / theirs for ours, theirs in zip(a_priori, simplest, strict=True)]
    off = [abs(one.coverage - 0.8) for one in a_priori]
    coverage = fmean(one.coverage for one in a_priori)
    return [
        measured(f"sim.path_mape_known_dag_{name}", known, "share", bar=0.18),
        measured(f"sim.path_mape_a_priori_{name}", [one.mape for one in a_priori], "share"),
        measured(f"sim.path_mape_trace_mean_{name}", simplest, "share"),
        measured(f"sim.path_a_priori_vs_trace_mean_{name}", against, "×", bar=1.0),
        measured(
            f"sim.path_coverage_off_80_{name}",
            off,
            "share",
            bar=0.05,
            coverage=round(coverage, 3),
        ),
    ]


def _predict(name: str, seed: int) -> Predictions:
    workload = read_workload(DATA / "workloads" / f"{name}.jsonl")
    rng = random.Random(seed)
    learner = Learner(load_fleet("het-70b"))
    taught = list(workload.part("train"))
    rng.shuffle(taught)
    for line in taught:
        learner.learn(line)
    predictions = Predictions()
    arriving = rng.choices(workload.part("test"), k=WARMUP + QUESTIONS)
    for number, line in enumerate(arriving):
        if number >= WARMUP:
            true = learner.true(line)
            predictions.known.append((learner.known(line), true))
            predictions.a_priori.append((learner.a_priori(line), true))
            predictions.trace_mean.append((learner.mean_so_far(), true))
        learner.learn(line)
    return predictions
