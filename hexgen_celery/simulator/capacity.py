"""The highest rate that a fleet can bear, by the benchmark protocol's definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hexgen_celery.core.fleet import Fleet
from hexgen_celery.simulator.bounds import conserved_throughput
from hexgen_celery.simulator.config import Choice, Policies, SimulationConfig
from hexgen_celery.simulator.running import run
from hexgen_celery.workloads import Workload


@dataclass(frozen=True, slots=True)
class CapacitySearch:
    """`precision`: relative width at which the bisection ends. Length and seed of its runs."""

    precision: float = 0.02
    questions: int = 600
    warmup: int = 100
    seed: int = 0


# The protocol's yardstick: least outstanding requests, least laxity first.
YARDSTICK = Policies(dispatch=Choice("least-outstanding"), order=Choice("least-laxity"))

CapacityKey = tuple[Workload, Fleet, int, float, bool, str, CapacitySearch]
_capacities: dict[CapacityKey, float] = {}


def capacity(
    workload: Workload,
    fleet: Fleet,
    databases: int = 11,
    *,
    zipf: float = 1.0,
    prefix_cache: bool = True,
    split: str = "test",
    search: CapacitySearch | None = None,
) -> float:
    """Questions per second at which the yardstick policy just keeps its backlog bounded (cached).

    Raises:
        InvalidWorkload: if the workload has no questions in `split` or the fleet cannot serve one.
    """
    search = search or CapacitySearch()
    key = (workload, fleet, databases, zipf, prefix_cache, split, search)
    if key not in _capacities:
        config = SimulationConfig(
            workload=workload,
            fleet=fleet,
            rate=1.0,
            policies=YARDSTICK,
            questions=search.questions,
            warmup=search.warmup,
            cooldown=0,
            seed=search.seed,
            databases=databases,
            zipf=zipf,
            slo_base_seconds=1.0,
            prefix_cache=prefix_cache,
            split=split,
        )
        ceiling = conserved_throughput(workload.part(split) or workload.questions, fleet)
        _capacities[key] = highest(
            lambda rate: run(replace(config, rate=rate)).stable, ceiling, search.precision
        )
    return _capacities[key]


def highest(holds: Callable[[float], bool], ceiling: float, precision: float) -> float:
    """The largest value below `ceiling` for which `holds` is true, by bisection."""
    low, high = 0.0, ceiling
    while high - low > precision * high:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
