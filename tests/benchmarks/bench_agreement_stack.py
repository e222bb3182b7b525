"""How far the emulated cluster and the simulator are apart: two loads, two policies.

The simulator's estimates are learnt before a run; those of the cluster come from the questions that
warm it up, which both sides leave out of their figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from hexgen_celery.reports.scenarios import DEFAULT, LEAST_OUTSTANDING_LAXITY
from tests.benchmarks.agreement import Figures, simulated
from tests.benchmarks.live_runs import SEEDS, Lengths, LiveRun, high_load_run, made, protocol_config
from tests.benchmarks.rows import BenchmarkSkipped, Row, measured

LOW_LOAD = 0.5
# So fast that the cluster carries nearly 30 % of what it can, as at the high load.
LOW_LOAD_SPEED = 9.0
LENGTHS = Lengths(warmup=40, questions=200)
POLICIES = {
    "least_outstanding_laxity": LEAST_OUTSTANDING_LAXITY.policies,
    "default": DEFAULT.policies,
}
BAR = 10.0
UNITS = {"p50": "%", "p95": "%", "mean": "%", "utilisation": "points"}


def run() -> list[Row]:
    """Rows of differences: per cent of the simulator's latencies, points of utilisation."""
    rows: list[Row] = []
    for policy, policies in POLICIES.items():
        low = made(_low_load_run(policy, seed) for seed in SEEDS)
        high = made(high_load_run(policy, policies, seed) for seed in SEEDS)
        rows += _rows(f"agreement.{policy}_load_0.5", low)
        rows += _rows(f"agreement.{policy}_load_0.9", high)
    if not rows:
        raise BenchmarkSkipped("no run of the stack was made")
    return rows


def _low_load_run(policy: str, seed: int) -> LiveRun:
    config = protocol_config(POLICIES[policy], LOW_LOAD, LENGTHS, seed)
    return LiveRun(policy, config, LOW_LOAD_SPEED)


def _rows(name: str, runs: Sequence[LiveRun]) -> list[Row]:
    played = [one.played() for one in runs]
    lives = [Figures.of(list(one.latencies.values()), one.utilisation) for one in played]
    expected = [simulated(one.config) for one in runs]
    if not runs:
        return []
    differences = [live.differences(other) for live, other in zip(lives, expected, strict=True)]
    return [
        measured(
            f"{name}_{figure}_difference",
            [each[figure] for each in differences],
            unit,
            bar=BAR,
            emulated=[getattr(live, figure) for live in lives],
            simulated=[getattr(other, figure) for other in expected],
            questions=runs[0].config.questions,
            speed=runs[0].speed,
            commits=sorted({one.commit for one in runs}),
        )
        for figure, unit in UNITS.items()
    ]
