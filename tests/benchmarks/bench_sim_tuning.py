"""Tuning α: what it costs, and how far its choice is from the best α after something changed.

After each change the tuner sees a window (its own seeds) with the α chosen before the change as
the incumbent; then every α of the grid runs on held-out arrivals (other seeds). The regret is the
tuned α's P95 over the lowest one there, both over all held-out questions.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from hexgen_celery.core.fleet import Fleet
from hexgen_celery.parallel import usable_processes
from hexgen_celery.profiles_io import load_fleet
from hexgen_celery.simulator import Choice, Policies, capacity
from hexgen_celery.tuning import Tuning, TuningPlan, candidates, tune, window_of
from hexgen_celery.workloads import Workload, read_workload
from tests.benchmarks.rows import BenchmarkSkipped, Row, measured

DATA = Path(os.environ.get("HEXGEN_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
DATABASES = 11
TUNING_SEEDS = (0, 1, 2)
HELD_OUT_SEEDS = (100, 101, 102, 103, 104)
LEAVES = "a100-2"


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
    bears = {name: _capacity(w, fleet) for name, w in (("first", first), ("second", second))}
    light = Situation(second, fleet, 0.5 * bears["second"])
    busy = replace(light, rate=0.9 * bears["second"])
    reduced = Situation(second, smaller, 0.9 * _capacity(second, smaller))
    other = Situation(first, fleet, 0.9 * bears["first"])
    started = time.perf_counter()
    incumbent = _tune(light, Choice("alpha", {"alpha": 0.2})).chosen
    seconds = time.perf_counter() - started
    return [
        measured("sim.tuning_500_questions_11_alphas_3_seeds_seconds", [seconds], "s", bar=60.0),
        _regret_row("load", light, busy, incumbent),
        _regret_row("hardware", busy, reduced, incumbent),
        _regret_row("workload", other, busy, Choice("alpha", {"alpha": 0.2})),
    ]


def _regret_row(change: str, before: Situation, after: Situation, start: Choice) -> Row:
    incumbent = _tune(before, start).chosen
    tuned = _tune(after, incumbent).chosen
    held_out = {
        tried.dispatch.parameters["alpha"]: tried.p95
        for tried in _evaluate(after, HELD_OUT_SEEDS).tried
    }
    best = min(held_out, key=lambda alpha: held_out[alpha])
    regret = held_out[tuned.parameters["alpha"]] / held_out[best] - 1.0
    worst = max(held_out.values()) / held_out[best] - 1.0
    return measured(
        f"sim.tuned_alpha_regret_{change}_shift",
        [regret],
        "share",
        bar=0.03,
        tuned=tuned.parameters["alpha"],
        before=incumbent.parameters["alpha"],
        best=best,
        worst_alpha=round(worst, 3),
    )


def _tune(situation: Situation, incumbent: Choice) -> Tuning:
    return tune(_plan(situation, TUNING_SEEDS, incumbent), usable_processes())


def _evaluate(situation: Situation, seeds: tuple[int, ...]) -> Tuning:
    return tune(_plan(situation, seeds, candidates()[0]), usable_processes())


def _plan(situation: Situation, seeds: tuple[int, ...], incumbent: Choice) -> TuningPlan:
    return TuningPlan(
        window=window_of(situation.workload, rate=situation.rate),
        fleet=situation.fleet,
        policies=Policies(dispatch=incumbent),
        questions=500,
        seeds=seeds,
        databases=DATABASES,
    )


def _workload(name: str) -> Workload:
    return read_workload(DATA / "workloads" / f"{name}.jsonl")


def _capacity(workload: Workload, fleet: Fleet) -> float:
    return capacity(workload, fleet, DATABASES)
