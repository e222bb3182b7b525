"""How far the emulated cluster and the simulator are apart: two loads, two policies.

The simulator's estimates are learnt before a run; those of the cluster come from the questions that
warm it up, which both sides leave out of their figures.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from hexgen_celery.simulator import Choice, Policies
from tests.benchmarks.agreement import Figures, simulated
from tests.benchmarks.live_runs import LiveRun, protocol_config
from tests.benchmarks.rows import Row, measured

FLEET, WORKLOAD = "het-70b", "trace2"
QUESTIONS = int(os.environ.get("HEXGEN_AGREEMENT_QUESTIONS", "200"))
WARMUP = 40
SEEDS = range(int(os.environ.get("HEXGEN_AGREEMENT_SEEDS", "3")))


@dataclass(frozen=True, slots=True)
class Load:
    """Questions per second, and how many times real time the cluster runs: so fast that it carries
    about 50 LLM requests a second, a quarter of what it can."""

    rate: float
    speed: float


# About half and four fifths of what the fleet bears.
LOADS = {"load_0.5": Load(0.18, 12.0), "load_0.8": Load(0.29, 8.0)}
POLICIES = {
    "least_outstanding": Policies(dispatch=Choice("least-outstanding")),
    "alpha": Policies(dispatch=Choice("alpha", {"alpha": 0.2})),
}
BAR = 10.0
UNITS = {"p50": "%", "p95": "%", "mean": "%", "utilisation": "points"}


def run() -> list[Row]:
    """Rows of differences: per cent of the simulator's latencies, points of utilisation."""
    rows: list[Row] = []
    for policy, policies in POLICIES.items():
        for name, load in LOADS.items():
            runs = [_live_run(policy, policies, load, seed) for seed in SEEDS]
            rows += _rows(f"agreement.{policy}_{name}", runs)
    return rows


def _live_run(policy: str, policies: Policies, load: Load, seed: int) -> LiveRun:
    config = protocol_config(
        WORKLOAD,
        FLEET,
        load.rate,
        policies,
        questions=QUESTIONS,
        warmup=WARMUP,
        cooldown=0,
        seed=seed,
    )
    return LiveRun(f"agreement-{policy}", config, load.speed)


def _rows(name: str, runs: Sequence[LiveRun]) -> list[Row]:
    played = [one.played() for one in runs]
    lives = [Figures.of(list(one.latencies.values()), one.utilisation) for one in played]
    expected = [simulated(one.config) for one in runs]
    differences = [live.differences(other) for live, other in zip(lives, expected, strict=True)]
    return [
        measured(
            f"{name}_{figure}_difference",
            [each[figure] for each in differences],
            unit,
            bar=BAR,
            emulated=[getattr(live, figure) for live in lives],
            simulated=[getattr(other, figure) for other in expected],
            questions=QUESTIONS,
            speed=runs[0].speed,
            commits=sorted({one.commit for one in runs}),
        )
        for figure, unit in UNITS.items()
    ]
