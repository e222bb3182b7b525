"""The default policies against two others on the whole stack, and in the simulator beside it.

The protocol's arrivals at 0.9 of the capacity, the same in both; deadlines that nobody misses. With
round-robin the backlog grows as long as questions come, so that fewer are asked and its run is
compared over those alone.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hexgen_celery.names import ASK
from hexgen_celery.profiles_io import load_fleet
from hexgen_celery.reports.scenarios import DEFAULT, LEAST_OUTSTANDING_LAXITY, ROUND_ROBIN
from hexgen_celery.simulator import SimulationConfig
from hexgen_celery.simulator import run as simulate
from hexgen_celery.simulator.results import percentile
from hexgen_celery.workloads.canonical import dump_question
from tests.benchmarks.bench_cluster import bench_cluster
from tests.benchmarks.live_runs import (
    FLEET,
    HIGH_LOAD,
    HIGH_LOAD_LENGTHS,
    HIGH_LOAD_SPEED,
    SEEDS,
    WORKLOAD,
    Lengths,
    LiveRun,
    high_load_run,
    made,
    protocol_config,
    shared_workload,
)
from tests.benchmarks.load import watching_ends
from tests.benchmarks.rows import BenchmarkSkipped, Row, measured

# Enough to see which way it goes: the backlog grows as long as questions come.
UNSTABLE_LENGTHS = Lengths(HIGH_LOAD_LENGTHS.warmup, HIGH_LOAD_LENGTHS.questions // 2)
OFF_BAR, LOAD_BAR, OVERHEAD_BAR = 10.0, 30.0, 2.0
# Enough to keep every worker busy for some seconds.
FLOOD_QUESTIONS = 60
FLOOD_SECONDS = 120.0

Latencies = Mapping[int, float]
Figure = Callable[[Sequence[float]], float]
FIGURES: dict[str, Figure] = {
    "p95": lambda values: percentile(values, 0.95),
    "mean": statistics.fmean,
}


@dataclass(frozen=True, slots=True)
class Rival:
    """Policies to compare with; `figures` are those that mean something."""

    name: str
    runs: Sequence[LiveRun]
    figures: tuple[str, ...]


def run() -> list[Row]:
    """Ratios (the other over the default), live and simulated, and how busy the stack was."""
    ours = made(high_load_run("default", DEFAULT.policies, seed) for seed in SEEDS)
    if not ours:
        raise BenchmarkSkipped("no run of the stack was made")
    rows = [row for rival in _rivals() for row in _comparison(rival, ours)]
    return rows + _stack_rows(ours)


def _rivals() -> tuple[Rival, ...]:
    name, policies = "least_outstanding_laxity", LEAST_OUTSTANDING_LAXITY.policies
    stable = made(high_load_run(name, policies, seed) for seed in SEEDS)
    return (
        Rival(name, stable, ("p95", "mean")),
        Rival("round_robin_fcfs", made([unstable_run(SEEDS[0])]), ("mean",)),
    )


def unstable_run(seed: int) -> LiveRun:
    """Round-robin, first come first served."""
    config = protocol_config(ROUND_ROBIN.policies, HIGH_LOAD, UNSTABLE_LENGTHS, seed)
    return LiveRun("round_robin_fcfs", config, HIGH_LOAD_SPEED)


def _comparison(rival: Rival, ours: Sequence[LiveRun]) -> list[Row]:
    rows: list[Row] = []
    by_seed = {one.config.seed: one for one in rival.runs}
    pairs = [(one, by_seed[one.config.seed]) for one in ours if one.config.seed in by_seed]
    if not pairs:
        return []
    live = [(one.played().latencies, other.played().latencies) for one, other in pairs]
    simulated = [(_simulated(one.config), _simulated(other.config)) for one, other in pairs]
    facts: dict[str, Any] = {
        "questions": rival.runs[0].config.questions,
        "commits": sorted({one.commit for pair in pairs for one in pair}),
    }
    for name in rival.figures:
        found = [_ratio(name, *pair) for pair in live]
        expected = [_ratio(name, *pair) for pair in simulated]
        off = [100 * abs(one / other - 1) for one, other in zip(found, expected, strict=True)]
        about = f"{name}_ratio_vs_{rival.name}"
        rows += [
            measured(
                f"router.live_{about}",
                found,
                "×",
                better="higher",
                seconds=[[_figure(name, each) for each in pair] for pair in live],
                **facts,
            ),
            measured(
                f"router.simulated_{about}",
                expected,
                "×",
                better="higher",
                seconds=[[_figure(name, each) for each in pair] for pair in simulated],
                **facts,
            ),
            measured(f"router.live_off_simulated_{about}", off, "%", bar=OFF_BAR, **facts),
        ]
    return rows


def _simulated(config: SimulationConfig) -> Latencies:
    return {question.number: question.latency for question in simulate(config).questions}


def _ratio(name: str, ours: Latencies, theirs: Latencies) -> float:
    """The other's figure over ours, on the questions that both have."""
    common = {number: ours[number] for number in theirs}
    return _figure(name, theirs) / _figure(name, common)


def _figure(name: str, latencies: Latencies) -> float:
    return FIGURES[name](list(latencies.values()))


def _stack_rows(ours: Sequence[LiveRun]) -> list[Row]:
    """How much of what the stack can carry it carried, and what it added to the requests' time.

    Of the time outside the servers, waiting for admission is the policies' doing and as long in
    the simulator; the rest is overhead.
    """
    played = [one.played() for one in ours]
    limit = _stack_capacity()
    load = [100 * one.llm_requests_per_second / limit for one in played]
    overhead = [
        100 * (one.overhead - _simulated_waiting(run.config))
        for run, one in zip(ours, played, strict=True)
    ]
    return [
        measured("router.live_stack_load_percent", load, "%", bar=LOAD_BAR, capacity=limit),
        measured(
            "router.live_overhead_percent", overhead, "%", bar=OVERHEAD_BAR, speed=HIGH_LOAD_SPEED
        ),
    ]


def _simulated_waiting(config: SimulationConfig) -> float:
    """The share of the requests' time, from ready to done, before a server takes them."""
    requests = simulate(replace(config, keep_requests=True)).requests
    waiting = sum(one.claimed - one.ready for one in requests)
    return waiting / sum(one.finished - one.ready for one in requests)


def _stack_capacity() -> float:
    """LLM requests a second when the servers answer at once and everything is asked together."""
    lines = shared_workload(WORKLOAD).part("test")[:FLOOD_QUESTIONS]
    servers = len(load_fleet(FLEET).instances)
    with bench_cluster(0.0, servers=servers) as cluster, watching_ends(cluster.redis) as ends:
        start = time.perf_counter()
        for line in lines:
            payload: dict[str, Any] = {
                "workflow": "trace",
                "question": "",
                "database": "",
                "slo_seconds": 3600.0,
                "options": {"line": dump_question(line)},
            }
            cluster.client.app.send_task(ASK, kwargs=payload, task_id=str(uuid.uuid4()))
        if not ends.wait_for(len(lines), FLOOD_SECONDS):
            raise RuntimeError("the stack did not answer all questions")
        seconds = max(ends.at.values()) - start
    return sum(len(line.requests) for line in lines) / seconds
