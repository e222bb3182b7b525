"""How far the emulated cluster and the simulator are apart: two loads, two policies."""

from __future__ import annotations

import os
from pathlib import Path

from hexgen_celery.profiles_io import load_fleet
from hexgen_celery.simulator import Choice, Policies
from hexgen_celery.workloads import read_workload
from tests.benchmarks.agreement import drawn_workload, emulated_cluster, simulated
from tests.benchmarks.rows import BenchmarkSkipped, Row, measured

PROJECT = Path(__file__).parents[2]
DATA = Path(os.environ.get("HEXGEN_DATA", PROJECT / ".." / "shared" / "data"))
FLEET, WORKLOAD = "het-70b", "trace2.jsonl"
DATABASES = 11
SPEED = float(os.environ.get("HEXGEN_AGREEMENT_SPEED", "4"))
QUESTIONS = int(os.environ.get("HEXGEN_AGREEMENT_QUESTIONS", "80"))
# About half and four fifths of what the fleet bears, questions per second.
RATES = {"load_0.5": 0.18, "load_0.8": 0.29}
POLICIES = {
    "least_outstanding": Policies(dispatch=Choice("least-outstanding")),
    "alpha": Policies(dispatch=Choice("alpha", {"alpha": 0.2})),
}
BAR = 10.0
UNITS = {"p50": "%", "p95": "%", "mean": "%", "utilisation": "points"}


def run() -> list[Row]:
    """Rows of differences: per cent of the simulator's latencies, points of utilisation."""
    if not (DATA / "workloads" / WORKLOAD).is_file():
        raise BenchmarkSkipped(f"the shared data is absent at {DATA}")
    lines = read_workload(DATA / "workloads" / WORKLOAD).part("test")
    fleet = load_fleet(FLEET)
    rows: list[Row] = []
    for policy, policies in POLICIES.items():
        with emulated_cluster(fleet, policies, SPEED) as cluster:
            for load, rate in RATES.items():
                workload = drawn_workload(lines, QUESTIONS, rate, DATABASES, seed=len(rows))
                live, expected = cluster.run(workload), simulated(workload, fleet, policies)
                for name, difference in live.differences(expected).items():
                    rows.append(
                        measured(
                            f"agreement.{policy}_{load}_{name}_difference",
                            [difference],
                            UNITS[name],
                            bar=BAR,
                            emulated=getattr(live, name),
                            simulated=getattr(expected, name),
                            questions=QUESTIONS,
                            speed=SPEED,
                        )
                    )
    return rows
