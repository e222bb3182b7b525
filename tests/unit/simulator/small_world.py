"""A small fleet and workload, quick to simulate and easy to reason about."""

from __future__ import annotations

from dataclasses import replace

from hexgen_celery.core.fleet import Fleet, FleetInstance
from hexgen_celery.simulator import Choice, Policies, SimulationConfig
from hexgen_celery.workloads import Workload, WorkloadQuestion, WorkloadRequest
from tests.small_profile import small_profile

FAST = small_profile(
    name="fast",
    gpu="FAST",
    prefill_tokens_per_second=5000.0,
    prefill_quadratic=1e-9,
    decode_base=0.02,
    decode_per_context_token=1e-7,
    kv_tokens=40_000,
    max_sequences=32,
    max_model_len=16_384,
)
SLOW = replace(FAST, name="slow", gpu="SLOW", prefill_tokens_per_second=1500.0, decode_base=0.05)
FLEET = Fleet(
    "small",
    "m",
    (
        FleetInstance("fast-1", "fast", FAST),
        FleetInstance("fast-2", "fast", FAST),
        FleetInstance("slow-1", "slow", SLOW),
    ),
)


def question(name: str, corrections: int, split: str) -> WorkloadQuestion:
    """Link, two parallel candidates, a chain of corrections, evaluation."""
    requests = [
        WorkloadRequest(0, "link", "link", (), 300, 8, 200, 0),
        WorkloadRequest(1, "generate", "one", (0,), 3000, 60, 2000, 900),
        WorkloadRequest(2, "generate", "two", (0,), 2500, 50, 1500, 900),
    ]
    last: tuple[int, ...] = (1, 2)
    for number in range(3, 3 + corrections):
        requests.append(WorkloadRequest(number, "correct", "revise", last, 2000, 30, 1000, 900))
        last = (number,)
    requests.append(WorkloadRequest(3 + corrections, "judge", "judge", last, 400, 5, 200, 0))
    return WorkloadQuestion(name, "shop", tuple(requests), split)


WORKLOAD = Workload(
    "small",
    tuple(
        question(f"{split}{corrections}", corrections, split)
        for split in ("train", "test")
        for corrections in (0, 1, 3)
    ),
)


def config(rate: float = 0.5, **changes: object) -> SimulationConfig:
    """A short run at a comfortable load."""
    base = SimulationConfig(
        WORKLOAD,
        FLEET,
        rate,
        questions=60,
        warmup=10,
        cooldown=5,
        databases=5,
        slo_base_seconds=4.0,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def policies(dispatch: str, order: str = "fcfs", **dispatch_parameters: object) -> Policies:
    """Policies by name."""
    return Policies(dispatch=Choice(dispatch, dispatch_parameters), order=Choice(order))
