"""The same questions at the same moments on the emulated cluster and in the simulator.

Both share the engine model, so this measures everything around it: queues, claims, admission,
routing, and the time all that takes.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hexgen_celery.core.fleet import Fleet
from hexgen_celery.simulator import Choice, SimulationConfig, SloClass, run
from hexgen_celery.simulator.config import RECORDED
from hexgen_celery.simulator.population import DrawnQuestion, draw_population
from hexgen_celery.simulator.results import percentile
from hexgen_celery.workloads import Workload, WorkloadQuestion

# Far beyond every latency, because a question that expires ends early on one side only.
SLO_SECONDS = 20_000.0


@dataclass(frozen=True, slots=True)
class Figures:
    """One run. Seconds are the instances' own (emulated or simulated); utilisation by pool, 0 to 1,
    between the first and the last measured arrival."""

    p50: float
    p95: float
    mean: float
    utilisation: Mapping[str, float]

    @classmethod
    def of(cls, latencies: Sequence[float], utilisation: Mapping[str, float]) -> Figures:
        """Summarize `latencies`."""
        mean = statistics.fmean(latencies)
        return cls(percentile(latencies, 0.5), percentile(latencies, 0.95), mean, utilisation)

    def differences(self, other: Figures) -> dict[str, float]:
        """Per cent of `other` for latencies; the largest over the pools, in points, for
        utilisation."""
        latencies = {
            name: 100 * abs(getattr(self, name) / getattr(other, name) - 1)
            for name in ("p50", "p95", "mean")
        }
        points = [
            abs(self.utilisation[pool] - other.utilisation[pool]) for pool in other.utilisation
        ]
        return {**latencies, "utilisation": 100 * max(points)}


def without_expiry(config: SimulationConfig) -> SimulationConfig:
    """`config` with a deadline for everybody that nobody misses."""
    classes = (SloClass("far", 1.0, 1.0),)
    return replace(config, classes=classes, slo_base_seconds=SLO_SECONDS)


def population_of(config: SimulationConfig) -> list[DrawnQuestion]:
    """What arrives in a run of `config`, for a cluster to play."""
    return draw_population(config, config.slo_base_seconds or SLO_SECONDS)


def recorded_population(workload: Workload, fleet: Fleet) -> list[DrawnQuestion]:
    """The questions of `workload` at their own arrivals, all of them measured."""
    config = SimulationConfig(workload, fleet, rate=1.0, arrivals=Choice(RECORDED))
    return population_of(config)


def simulated(config: SimulationConfig) -> Figures:
    """The simulator's figures."""
    result = run(config)
    return Figures.of([question.latency for question in result.questions], result.utilisation)


def drawn_workload(
    questions: Sequence[WorkloadQuestion], count: int, rate: float, databases: int, seed: int
) -> Workload:
    """`count` questions with Poisson arrivals at `rate` (per second) and Zipf-popular databases."""
    rng = random.Random(seed)
    weights = [1 / (rank + 1) for rank in range(databases)]
    at, drawn = 0.0, []
    for _ in range(count):
        (number,) = rng.choices(range(databases), weights)
        line = rng.choice(questions)
        drawn.append(
            replace(
                line,
                database=f"{line.database}.{number}",
                arrival=at,
                slo_seconds=SLO_SECONDS,
                split="test",
            )
        )
        at += rng.expovariate(rate)
    return Workload("drawn", tuple(drawn))
