"""The simulator: the policies of `core` over engine models, in virtual time.

`run(SimulationConfig)` plays one configuration and is deterministic by its seed;
`capacity(...)` finds the load that a fleet can bear. Both are pure computation.
"""

from hexgen_celery.simulator.arrivals import ARRIVALS
from hexgen_celery.simulator.bounds import Bounds, conserved_throughput, fastest_seconds
from hexgen_celery.simulator.capacity import CapacitySearch, capacity
from hexgen_celery.simulator.config import (
    PROTOCOL_CLASSES,
    RECORDED,
    ChatLoad,
    Choice,
    Incident,
    IncidentKind,
    Policies,
    SimulationConfig,
    SloClass,
    Tenant,
)
from hexgen_celery.simulator.observation import RequestRecord
from hexgen_celery.simulator.results import (
    ChatSummary,
    QuestionRecord,
    SimulationResult,
    StabilityRule,
)
from hexgen_celery.simulator.running import idle_median_seconds, run

__all__ = [
    "ARRIVALS",
    "PROTOCOL_CLASSES",
    "RECORDED",
    "Bounds",
    "CapacitySearch",
    "ChatLoad",
    "ChatSummary",
    "Choice",
    "Incident",
    "IncidentKind",
    "Policies",
    "QuestionRecord",
    "RequestRecord",
    "SimulationConfig",
    "SimulationResult",
    "SloClass",
    "StabilityRule",
    "Tenant",
    "capacity",
    "conserved_throughput",
    "fastest_seconds",
    "idle_median_seconds",
    "run",
]
