"""Admission by allowance against 16 and 64 slots, on the emulated cluster and in the simulator.

Where it must show: one server, long documents in bursts, and short urgent requests between them.
What a server has taken and cannot start waits inside it, in the order of arrival unless it ranks by
`priority`; both kinds of servers are tried.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from hexgen_celery.core.fleet import Fleet, FleetInstance
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.simulator import Choice, Policies, SimulationConfig
from hexgen_celery.simulator import run as simulate
from hexgen_celery.simulator.config import RECORDED
from hexgen_celery.simulator.results import percentile
from hexgen_celery.workloads import Workload, WorkloadQuestion, WorkloadRequest
from tests.benchmarks.agreement import population_of
from tests.benchmarks.live_runs import LiveRun, made
from tests.benchmarks.rows import Row, measured

PROFILE = "l40s-x4-llama-3.1-70b"
SPEED = 15.0
SECONDS = 600.0
SEEDS = range(int(os.environ.get("HEXGEN_ADMISSION_SEEDS", "1")))
ADMISSIONS = {
    "allowance": Choice("allowance"),
    "16_slots": Choice("fixed-slots", {"slots": 16}),
    "64_slots": Choice("fixed-slots", {"slots": 64}),
}
SERVERS = {"fcfs": False, "ranked": True}
URGENT, DOCUMENT = "urgent", "document"


@dataclass(frozen=True, slots=True)
class Kind:
    """Requests of one kind: their rate (1/s), the coefficient of variation of their gaps, sizes in
    tokens, and a deadline that ranks them and that nobody misses (seconds)."""

    name: str
    rate: float
    cv: float
    input_tokens: tuple[int, int]
    output_tokens: tuple[int, int]
    template_tokens: int
    slo_seconds: float


KINDS = (
    Kind(DOCUMENT, 0.15, 2.0, (7_200, 16_800), (150, 450), 1000, 20_000.0),
    Kind(URGENT, 0.5, 1.0, (800, 800), (60, 60), 400, 2_000.0),
)
Latencies = Mapping[str, Sequence[float]]


def run() -> list[Row]:
    """Ratios of the urgent requests' P95, slots over allowance, by kind of server."""
    rows: list[Row] = []
    for server in SERVERS:
        runs = {
            name: made(admission_run(name, server, seed) for seed in SEEDS) for name in ADMISSIONS
        }
        if not all(runs.values()):
            continue
        live = {name: [_live(one) for one in each] for name, each in runs.items()}
        simulated = {name: [_simulated(one) for one in each] for name, each in runs.items()}
        for slots in ("16_slots", "64_slots"):
            rows.append(
                measured(
                    f"router.admission_urgent_p95_{slots}_over_allowance_{server}_server",
                    _urgent_ratios(live, slots),
                    "×",
                    bar=1.0,
                    better="higher",
                    simulated=_urgent_ratios(simulated, slots),
                    live_seconds=_table(live, slots),
                    simulated_seconds=_table(simulated, slots),
                    commits=sorted({one.commit for each in runs.values() for one in each}),
                )
            )
    return rows


def admission_run(admission: str, server: str, seed: int) -> LiveRun:
    """A run of one admission policy against one kind of server."""
    profile = load_profile(PROFILE)
    config = SimulationConfig(
        _workload(seed),
        Fleet("one", profile.model, (FleetInstance("l40s-1", "l40s", profile),)),
        rate=sum(kind.rate for kind in KINDS),
        policies=Policies(admission=ADMISSIONS[admission]),
        arrivals=Choice(RECORDED),
        engine_priority=SERVERS[server],
        seed=seed,
    )
    return LiveRun(f"admission-{admission}-{server}", config, SPEED)


def _workload(seed: int) -> Workload:
    rng = random.Random(seed)
    questions = [question for kind in KINDS for question in _questions(kind, rng)]
    return Workload(
        f"documents-{seed}", tuple(sorted(questions, key=lambda one: one.arrival or 0.0))
    )


def _questions(kind: Kind, rng: random.Random) -> list[WorkloadQuestion]:
    found: list[WorkloadQuestion] = []
    at, variance = 0.0, kind.cv**2
    while at < SECONDS:
        request = WorkloadRequest(
            0,
            "candidate_generation",
            kind.name,
            (),
            rng.randint(*kind.input_tokens),
            rng.randint(*kind.output_tokens),
            kind.template_tokens,
            0,
        )
        question = WorkloadQuestion(
            kind.name, "none", (request,), arrival=at, slo_seconds=kind.slo_seconds
        )
        found.append(question)
        at += rng.gammavariate(1 / variance, variance) / kind.rate
    return found


def _live(run: LiveRun) -> Latencies:
    latencies = run.played().latencies
    drawn = population_of(run.config)
    return {
        kind.name: [latencies[one.number] for one in drawn if one.line.question == kind.name]
        for kind in KINDS
    }


def _simulated(run: LiveRun) -> Latencies:
    questions = simulate(run.config).questions
    return {
        kind.name: [one.latency for one in questions if one.question == kind.name] for kind in KINDS
    }


def _urgent_ratios(found: Mapping[str, Sequence[Latencies]], slots: str) -> list[float]:
    return [
        _p95(theirs[URGENT]) / _p95(ours[URGENT])
        for theirs, ours in zip(found[slots], found["allowance"], strict=True)
    ]


def _table(found: Mapping[str, Sequence[Latencies]], slots: str) -> dict[str, float]:
    """Medians over the seeds."""
    return {
        f"{kind} {name}": median(_p95(one[kind]) for one in found[name])
        for name in ("allowance", slots)
        for kind in (URGENT, DOCUMENT)
    }


def _p95(latencies: Sequence[float]) -> float:
    return percentile(latencies, 0.95)
