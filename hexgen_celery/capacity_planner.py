"""The cheapest mix of instances that answers a workload in time, found by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Any

from hexgen_celery.core.fleet import Fleet, FleetInstance
from hexgen_celery.core.profiles import Profile
from hexgen_celery.errors import InvalidSettings, InvalidWorkload
from hexgen_celery.parallel import map_unordered
from hexgen_celery.simulator import (
    Policies,
    SimulationConfig,
    SloClass,
    conserved_throughput,
    fastest_seconds,
    run,
)
from hexgen_celery.workloads import Workload, WorkloadQuestion

# How many questions must be allowed to miss for their share to mean anything.
LEAST_MISSES = 3

Mix = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InstanceKind:
    """A kind of instance one can rent: its speed and its price per hour."""

    profile: Profile
    price: float


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What must hold: `attainment` of the questions within `slo_seconds` at `rate` per second.

    `kinds` are the instances on offer, at most `most_instances` of them together. `seeds` repeat
    the simulation that confirms a plan; a first one of `probe_questions` sorts out the hopeless.
    """

    workload: Workload
    kinds: tuple[InstanceKind, ...]
    slo_seconds: float
    attainment: float
    rate: float
    databases: int = 1
    most_instances: int = 8
    questions: int = 600
    probe_questions: int = 150
    warmup: int = 50
    seeds: tuple[int, ...] = (0, 1, 2)
    policies: Policies = field(default_factory=Policies)

    def __post_init__(self) -> None:
        for name in ("slo_seconds", "rate", "databases", "most_instances"):
            if not getattr(self, name) > 0:
                raise InvalidSettings(
                    f"{name} must be greater than 0, got {getattr(self, name)}", field=name
                )
        if not 0.0 < self.attainment < 1.0:
            raise InvalidSettings(
                f"attainment must lie between 0 and 1, got {self.attainment}",
                field="attainment",
                hint="0.95 means that 95 % of the questions are answered in time",
            )
        if not self.kinds:
            raise InvalidSettings("no kind of instance is on offer", field="kinds")


@dataclass(frozen=True, slots=True)
class Judged:
    """A mix that was simulated: instances by profile, price per hour, lowest attainment of its
    seeds, highest P95 (seconds), and whether it met the target."""

    instances: dict[str, int]
    price: float
    attainment: float
    p95: float
    good: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """`chosen` is the cheapest mix that met the target, or `None` when none on offer did.

    `pruned` mixes were excluded without a simulation, by conservation of work or by the critical
    path.
    """

    chosen: Judged | None
    judged: tuple[Judged, ...]
    pruned: int

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "chosen": _judged_json(self.chosen) if self.chosen else None,
            "judged": [_judged_json(judged) for judged in self.judged],
            "pruned": self.pruned,
        }


def kinds_of(
    profiles: Sequence[Profile], prices: Mapping[str, float], model: str
) -> tuple[InstanceKind, ...]:
    """The instances that serve `model`, priced by GPU type and hour.

    Raises:
        InvalidSettings: if no profile serves the model, or a GPU type has no price.
    """
    serving = [profile for profile in profiles if profile.model == model]
    if not serving:
        models = ", ".join(sorted({profile.model for profile in profiles}))
        raise InvalidSettings(
            f"no profile serves {model}", field="model", hint=f"choose one of: {models}"
        )
    for profile in serving:
        if profile.gpu not in prices:
            raise InvalidSettings(
                f"the price list has no {profile.gpu}", field="prices", hint="add it to gpu_hour"
            )
    return tuple(InstanceKind(one, one.gpus * prices[one.gpu]) for one in serving)


def plan(request: PlanRequest, processes: int = 1) -> Plan:
    """Search the mixes from the cheapest up; the first that holds is the answer.

    A short run sorts out the hopeless, as many mixes at a time as there are processes; what passes
    is simulated at full length with every seed.

    Raises:
        InvalidWorkload: if the workload has too few questions to tell the attainment.
    """
    lines = _lines(request)
    _refuse_short(request)
    every = mixes(request)
    possible = _possibility(request, lines)
    promising = [mix for mix in every if possible(mix)]
    judged: list[Judged] = []
    for start in range(0, len(promising), processes):
        for mix, probe in _probes(request, promising[start : start + processes], processes):
            verdict = _judge(request, mix, probe, processes)
            judged.append(verdict)
            if verdict.good:
                return Plan(verdict, tuple(judged), len(every) - len(promising))
    return Plan(None, tuple(judged), len(every) - len(promising))


def mixes(request: PlanRequest) -> list[Mix]:
    """All counts per kind with at most `most_instances` together, the cheapest first."""
    counts = range(request.most_instances + 1)
    every = product(counts, repeat=len(request.kinds))
    sized = (mix for mix in every if 0 < sum(mix) <= request.most_instances)
    return sorted(sized, key=lambda mix: (price(request, mix), mix))


def price(request: PlanRequest, mix: Mix) -> float:
    """Price per hour of a mix."""
    return sum(count * kind.price for count, kind in zip(mix, request.kinds, strict=True))


def fleet_of(request: PlanRequest, mix: Mix) -> Fleet:
    """The mix as a fleet, one pool per kind."""
    instances = [
        FleetInstance(f"{kind.profile.name}-{number + 1}", kind.profile.name, kind.profile)
        for kind, count in zip(request.kinds, mix, strict=True)
        for number in range(count)
    ]
    return Fleet("plan", request.kinds[0].profile.model, tuple(instances))


def _lines(request: PlanRequest) -> tuple[WorkloadQuestion, ...]:
    return request.workload.part("test") or request.workload.questions


def _refuse_short(request: PlanRequest) -> None:
    needed = math.ceil(LEAST_MISSES / (1.0 - request.attainment) - 1e-9)
    count = len(request.workload.questions)
    if count < needed:
        raise InvalidWorkload(
            f"{request.workload.name} has {count} questions, too few to tell an attainment of "
            f"{request.attainment:g}",
            field="workload",
            hint=f"give at least {needed} questions, or ask for a lower attainment",
        )


def _possibility(request: PlanRequest, lines: Sequence[WorkloadQuestion]) -> Callable[[Mix], bool]:
    """Whether a mix could hold at all: enough work per second, and fast enough when idle."""
    kinds = range(len(request.kinds))
    rates = [
        conserved_throughput(lines, fleet_of(request, tuple(int(n == kind) for n in kinds)))
        for kind in kinds
    ]

    @cache
    def share_in_time(present: Mix) -> float:
        fleet = fleet_of(request, present)
        in_time = sum(fastest_seconds(line, fleet) <= request.slo_seconds for line in lines)
        return in_time / len(lines)

    def possible(mix: Mix) -> bool:
        if sum(count * rate for count, rate in zip(mix, rates, strict=True)) < request.rate:
            return False
        # The critical path depends on which kinds are there, not on how many of each.
        return share_in_time(tuple(min(1, count) for count in mix)) >= request.attainment

    return possible


def _probes(request: PlanRequest, some: Sequence[Mix], processes: int) -> list[tuple[Mix, Outcome]]:
    """A short run of each mix, in the order given."""
    configs = [
        replace(
            _config(request, fleet_of(request, mix), request.seeds[0]),
            questions=request.probe_questions,
        )
        for mix in some
    ]
    done = {
        config.fleet: outcome for config, outcome in map_unordered(_outcome, configs, processes)
    }
    return [(mix, done[config.fleet]) for mix, config in zip(some, configs, strict=True)]


def _judge(request: PlanRequest, mix: Mix, probe: Outcome, processes: int) -> Judged:
    outcomes = [probe]
    if probe.attainment >= request.attainment:
        fleet = fleet_of(request, mix)
        configs = [_config(request, fleet, seed) for seed in request.seeds]
        outcomes = [outcome for _, outcome in map_unordered(_outcome, configs, processes)]
    attainment = min(outcome.attainment for outcome in outcomes)
    return Judged(
        instances={
            kind.profile.name: count
            for kind, count in zip(request.kinds, mix, strict=True)
            if count
        },
        price=price(request, mix),
        attainment=attainment,
        p95=max(outcome.p95 for outcome in outcomes),
        good=attainment >= request.attainment and all(outcome.stable for outcome in outcomes),
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulation says about a mix."""

    attainment: float
    p95: float
    stable: bool


def _outcome(config: SimulationConfig) -> Outcome:
    result = run(config)
    return Outcome(result.attainment(), result.percentile(0.95), result.stable)


def _config(request: PlanRequest, fleet: Fleet, seed: int) -> SimulationConfig:
    split = "test" if request.workload.part("test") else request.workload.questions[0].split
    return SimulationConfig(
        workload=request.workload,
        fleet=fleet,
        rate=request.rate,
        policies=request.policies,
        questions=request.questions,
        warmup=request.warmup,
        seed=seed,
        databases=request.databases,
        classes=(SloClass("slo", request.slo_seconds, 1.0),),
        slo_base_seconds=1.0,
        split=split,
    )


def _judged_json(judged: Judged) -> dict[str, Any]:
    return {
        "instances": judged.instances,
        "price_per_hour": judged.price,
        "attainment": judged.attainment,
        "p95": judged.p95 if math.isfinite(judged.p95) else None,
        "good": judged.good,
    }
