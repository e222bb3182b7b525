"""Tuning α: what it costs, and how far its choice is from the best α after something changed.

After each change the tuner sees a window (its own seeds) with the α chosen before the change as
the incumbent; then every α of the grid runs on held-out arrivals (other seeds). The regret is the
tuned α's P95 over the lowest one there, both over all held-out questions.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from hexgen_celery.core.fleet import Fleet
from hexgen_celery.parallel import usable_processes
from hexgen_celery.profiles_io import load_fleet
from hexgen_celery.simulator import Choice, Policies, capacity
from hexgen_celery.tuning import Evaluation, TuningPlan, conclude, evaluate, window_of
from hexgen_celery.workloads import Workload, read_workload
from tests.benchmarks.rows import BenchmarkSkipped, Row, measured

DATA = Path(os.environ.get("HEXGEN_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
DATABASES = 11
TUNING_SEEDS = (0, 1, 2)
HELD_OUT_SEEDS = (100, 101, 102, 103, 104)
LEAVES = "a100-2"

# The α in use when everything begins.
START = 0.2


@dataclass(frozen=True, slots=True)
class Situation:
    """What the tuner meets: workload, fleet and rate (questions per second)."""

    workload: Workload
    fleet: Fleet
    rate: float


def run() -> list[Row]:
    """Seconds of one tuning, and the regret after each kind of change."""
    if not (DATA / "workloads").is_dir():
        raise BenchmarkSkipped(f"the shared data is absent at {DATA}")
    first, second = _workload("trace1"), _workload("trace2")
    fleet = load_fleet("het-70b")
    smaller = Fleet(
        "without-one",
        fleet.model,
        tuple(instance for instance in fleet.instances if instance.name != LEAVES),
    )
    bears = capacity(second, fleet, DATABASES)
    light = Situation(second, fleet, 0.5 * bears)
    busy = Situation(second, fleet, 0.9 * bears)
    reduced = Situation(second, smaller, 0.9 * capacity(second, smaller, DATABASES))
    other = Situation(first, fleet, 0.9 * capacity(first, fleet, DATABASES))
    started = time.perf_counter()
    seen = {"light": _evaluate(light, TUNING_SEEDS)}
    seconds = time.perf_counter() - started
    for name, situation in (("busy", busy), ("reduced", reduced), ("other", other)):
        seen[name] = _evaluate(situation, TUNING_SEEDS)
    held_out = {
        "busy": _held_out(busy),
        "reduced": _held_out(reduced),
    }
    light_alpha = _chosen(light, seen["light"], START)
    busy_alpha = _chosen(busy, seen["busy"], light_alpha)
    other_alpha = _chosen(other, seen["other"], START)
    reduced_alpha = _chosen(reduced, seen["reduced"], busy_alpha)
    busy_after_other = _chosen(busy, seen["busy"], other_alpha)
    return [
        measured("sim.tuning_500_questions_11_alphas_3_seeds_seconds", [seconds], "s", bar=60.0),
        _regret_row("load", light_alpha, busy_alpha, held_out["busy"]),
        _regret_row("hardware", busy_alpha, reduced_alpha, held_out["reduced"]),
        _regret_row("workload", other_alpha, busy_after_other, held_out["busy"]),
    ]


def _regret_row(change: str, before: float, tuned: float, held_out: dict[float, float]) -> Row:
    best = min(held_out, key=lambda alpha: held_out[alpha])
    return measured(
        f"sim.tuned_alpha_regret_{change}_shift",
        [held_out[tuned] / held_out[best] - 1.0],
        "share",
        bar=0.03,
        before=before,
        tuned=tuned,
        best=best,
        regret_of_not_tuning=round(held_out[before] / held_out[best] - 1.0, 4),
        regret_of_worst=round(max(held_out.values()) / held_out[best] - 1.0, 4),
    )


def _evaluate(situation: Situation, seeds: tuple[int, ...]) -> Evaluation:
    return evaluate(_plan(situation, seeds, START), usable_processes())


def _chosen(situation: Situation, evaluation: Evaluation, incumbent: float) -> float:
    """The α that the tuner would now use, having used `incumbent`."""
    tuning = conclude(_plan(situation, TUNING_SEEDS, incumbent), evaluation)
    return float(tuning.chosen.parameters["alpha"])


def _held_out(situation: Situation) -> dict[float, float]:
    """P95 of every α over all held-out questions, seconds."""
    tuning = conclude(_plan(situation, HELD_OUT_SEEDS, START), _evaluate(situation, HELD_OUT_SEEDS))
    return {float(t.dispatch.parameters["alpha"]): t.p95 for t in tuning.tried}


def _plan(situation: Situation, seeds: tuple[int, ...], incumbent: float) -> TuningPlan:
    return TuningPlan(
        window=window_of(situation.workload, rate=situation.rate),
        fleet=situation.fleet,
        policies=Policies(dispatch=Choice("alpha", {"alpha": incumbent})),
        questions=500,
        seeds=seeds,
        databases=DATABASES,
    )


def _workload(name: str) -> Workload:
    return read_workload(DATA / "workloads" / f"{name}.jsonl")
