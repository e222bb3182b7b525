"""How fast the simulator is: trace2 at 0.8 load on four instances, once and ten times as long."""

from __future__ import annotations

import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from hexgen_celery.profiles_io import load_fleet
from hexgen_celery.simulator import SimulationConfig, capacity, idle_median_seconds
from hexgen_celery.simulator import run as simulate
from hexgen_celery.workloads import read_workload
from tests.benchmarks.rows import BenchmarkSkipped, Row, measured

DATA = Path(os.environ.get("HEXGEN_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
LOAD = 0.8
QUESTIONS = 1_000
REPEATS = 3
LONG_REPEATS = 1
MEGABYTE = 1024.0
"""In the kilobytes of `ru_maxrss`."""


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of one run, peak memory of its process (MB), requests simulated."""

    seconds: float
    megabytes: float
    requests: int


def run() -> list[Row]:
    """CPU seconds and memory of 1,000 questions, and the ratio of ten times as many."""
    path = DATA / "workloads" / "trace2.jsonl"
    if not path.is_file():
        raise BenchmarkSkipped(f"the shared data is absent at {DATA}")
    config = _config(path)
    short = [_in_own_process(config, QUESTIONS) for _ in range(REPEATS)]
    long = [_in_own_process(config, 10 * QUESTIONS) for _ in range(LONG_REPEATS)]
    seconds = [cost.seconds for cost in short]
    typical = sorted(seconds)[len(seconds) // 2]
    return [
        measured(
            "sim.trace2_1000_questions_seconds",
            seconds,
            "CPU s",
            bar=6.0,
            requests=short[0].requests,
        ),
        measured(
            "sim.trace2_1000_questions_mb", [cost.megabytes for cost in short], "MB", bar=500.0
        ),
        measured("sim.scaling_10x_ratio", [cost.seconds / typical for cost in long], "×", bar=12.0),
    ]


def _config(path: Path) -> SimulationConfig:
    workload, fleet = read_workload(path), load_fleet("het-70b")
    config = SimulationConfig(
        workload, fleet, LOAD * capacity(workload, fleet), warmup=0, cooldown=0
    )
    return replace(config, slo_base_seconds=idle_median_seconds(config))


def _in_own_process(config: SimulationConfig, questions: int) -> Cost:
    """Run in a fresh interpreter, so that its peak memory is this run's alone."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, replace(config, questions=questions)).result()


def _measure(config: SimulationConfig) -> Cost:
    started = time.process_time()
    result = simulate(config)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEGABYTE
    return Cost(seconds, peak, result.finished_requests)
