"""What a scheduling decision may look at: requests, instances and pools as plain values.

The live router, the emulated cluster and the simulator each build these views from their own
bookkeeping; the policies of `core.dispatch`, `core.order` and `core.admission` see nothing else.
All times are seconds on one clock, all sizes are tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hexgen_celery.core.prefix import Prefix
from hexgen_celery.core.profiles import Profile


@dataclass(frozen=True, slots=True)
class RequestView:
    """One LLM request at the moment it became ready.

    `output_tokens` is the *estimate* L̂_out, never the truth. `remaining_seconds` and
    `remaining_p10_seconds` estimate the critical path of the question from this request on
    (this request included), the second optimistically. `slack_seconds` is how much longer the
    slowest request of the same question and stage that was sent out already is expected to take:
    up to then this request's own time delays nobody.
    """

    request_id: str
    workflow_id: str
    stage: str
    step: str
    database: str
    tenant: str
    model: str
    input_tokens: int
    output_tokens: float
    prefix: Prefix
    submitted_at: float
    deadline: float
    ready_at: float
    remaining_seconds: float
    remaining_p10_seconds: float
    stage_budget_seconds: float = 0.0
    slack_seconds: float = 0.0


def nothing_cached(_prefix: Prefix) -> int:
    """The cache lookup of an instance about which nothing is known."""
    return 0


@dataclass(slots=True)
class InstanceView:
    """The load of one vLLM server as the ledger knows it.

    `outstanding_*` count requests dispatched to this instance (its own queue, its share of the
    pool queue, and those running): uncached prefill tokens not yet computed, and output tokens
    still expected. `cached_tokens(prefix)` is the number of leading tokens of that prefix expected
    to hit this instance's prefix cache. `assigned_seconds` is work ever assigned (never reduced),
    kept for the published dispatch form; `running_context_tokens` the prompts of those running,
    which every decode step attends to (shared beginnings count once per request).
    """

    instance: str
    pool: str
    gpu: str
    profile: Profile
    ready: bool = True
    running: int = 0
    waiting: int = 0
    outstanding_prefill_tokens: float = 0.0
    outstanding_output_tokens: float = 0.0
    running_output_tokens: float = 0.0
    waiting_exec_seconds: float = 0.0
    kv_used_tokens: int = 0
    running_context_tokens: int = 0
    assigned_seconds: float = 0.0
    cached_tokens: Callable[[Prefix], int] = field(default=nothing_cached)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All instances a request may be sent to, in a fixed order."""

    now: float
    instances: Sequence[InstanceView]

    def ready(self) -> list[InstanceView]:
        """The instances that can serve, in order."""
        return [view for view in self.instances if view.ready]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes: a pool's queue, or one instance's own queue within the pool.

    `score` is the chosen option's value in the policy's own unit and `reasons` the inputs worth
    keeping in the trace (seconds unless the name says otherwise). `scores` are those of all
    instances it was chosen from, where the policy has them.
    """

    pool: str
    instance: str | None
    score: float
    reasons: dict[str, float] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
