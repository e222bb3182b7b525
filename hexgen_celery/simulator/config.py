"""What a simulation is told: fleet, workload, load, policies, incidents. All picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hexgen_celery.core.defaults import DEFAULTS
from hexgen_celery.core.fleet import Fleet
from hexgen_celery.core.order import ClaimRules
from hexgen_celery.workloads import Workload

# Arrivals as the workload recorded them, instead of a drawn process.
RECORDED = "recorded"


@dataclass(frozen=True, slots=True)
class Choice:
    """A registered policy or process by name, with its parameters."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policies:
    """Everything that decides. Names are those of the registries in `core`."""

    dispatch: Choice = Choice(DEFAULTS.dispatch)
    order: Choice = Choice(DEFAULTS.order)
    admission: Choice = Choice(DEFAULTS.admission)
    stealing: Choice = Choice(DEFAULTS.stealing)
    claim: ClaimRules = field(default_factory=ClaimRules)


@dataclass(frozen=True, slots=True)
class SloClass:
    """A share of the questions with a deadline of `factor` times the base (seconds)."""

    name: str
    factor: float
    share: float


# The benchmark protocol: half of the questions at 2 and half at 4 times the median idle latency.
PROTOCOL_CLASSES = (SloClass("interactive", 2.0, 0.5), SloClass("relaxed", 4.0, 0.5))


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who asks, and how large a share of the questions is theirs."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class ChatLoad:
    """Single requests that are not questions and use the same instances.

    Poisson at `rate` per second; sizes are drawn lognormally around the means (tokens) with
    `spread` as the standard deviation of the logarithm; each should end within `slo_seconds`.
    """

    rate: float
    input_tokens: float = 800.0
    output_tokens: float = 200.0
    spread: float = 0.6
    slo_seconds: float = 30.0


class IncidentKind(StrEnum):
    """Lost, back (or new) with a cold cache, or taking no more work."""

    DOWN = "down"
    UP = "up"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that happens to an instance at `at` seconds.

    An instance whose first incident is UP does not exist before it.
    """

    at: float
    instance: str
    kind: IncidentKind


@dataclass(frozen=True, slots=True)
class SimulationConfig:
    """One run.

    `questions` are measured, after `warmup` and before `cooldown` further ones that only keep the
    load up. Recorded arrivals are played as they were, all of them measured, whatever `rate` and
    these counts say. Databases: `databases` copies of the schema, popular by Zipf with exponent
    `zipf`.
    `slo_base_seconds` None means the median latency of the workload on the idle fleet.
    `train_split` teaches the estimates, `split` is what arrives. Without `engine_priority` engines
    let what they cannot start wait in the order of its arrival, as vLLM does unless told otherwise.

    Raises:
        ValueError: naming the field that makes no sense.
    """

    workload: Workload
    fleet: Fleet
    rate: float
    policies: Policies = Policies()
    questions: int = 600
    warmup: int = 100
    cooldown: int = 50
    seed: int = 0
    databases: int = 11
    zipf: float = 1.0
    arrivals: Choice = Choice("poisson")
    classes: tuple[SloClass, ...] = PROTOCOL_CLASSES
    slo_base_seconds: float | None = None
    tenants: tuple[Tenant, ...] = (Tenant("default", 1.0),)
    chat: ChatLoad | None = None
    incidents: tuple[Incident, ...] = ()
    prefix_cache: bool = True
    engine_priority: bool = True
    split: str = "test"
    train_split: str = "train"
    keep_requests: bool = False

    def __post_init__(self) -> None:
        for name in ("rate", "questions", "databases"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be greater than 0, got {getattr(self, name)}")
        for name in ("warmup", "cooldown", "zipf"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        for name in ("classes", "tenants"):
            shares = [entry.share for entry in getattr(self, name)]
            if not shares or min(shares) < 0 or sum(shares) <= 0:
                raise ValueError(f"{name} must have shares above 0, got {shares}")
        known = {instance.name for instance in self.fleet.instances}
        for incident in self.incidents:
            if incident.instance not in known:
                raise ValueError(f"incidents name an unknown instance {incident.instance!r}")
