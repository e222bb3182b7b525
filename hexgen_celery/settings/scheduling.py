"""Which request goes where and when: routing, queues, admission, tuning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hexgen_celery.core.defaults import DEFAULTS
from hexgen_celery.settings.section import (
    Positive,
    PositiveInt,
    Section,
)


class RouterSettings(Section):
    """Which dispatch policy chooses the instance, with its parameters; Redis may say otherwise."""

    dispatch: str = DEFAULTS.dispatch
    parameters: dict[str, int | float | str | bool] = Field(default_factory=dict)


class QueueSettings(Section):
    """Leases of queued messages, and which request a claim takes (docs/queues.md).

    A message whose lease ended `max_deliveries` times is a dead letter, of which the newest
    `dead_letters` are kept. `order` ranks what waits.
    Of the claims every `demoted_every`-th serves the oldest request that is late already; one too
    large for the room there is may be passed over `patience` times, for one of the next `depth`.
    """

    lease_seconds: Positive = 15.0
    max_deliveries: PositiveInt = 5
    dead_letters: PositiveInt = 10_000
    order: str = DEFAULTS.order
    demoted_every: PositiveInt = DEFAULTS.claim_every
    patience: Annotated[int, Field(ge=0)] = DEFAULTS.claim_patience
    depth: Annotated[int, Field(ge=0, le=200)] = DEFAULTS.claim_depth


class AdmissionSettings(Section):
    """How much of its queue an LLM server may hold: policy and parameters (core/admission.py)."""

    policy: str = DEFAULTS.admission
    parameters: dict[str, int | float] = Field(default_factory=dict)


class TunerSettings(Section):
    """The tuner of the dispatch weight (docs/scheduling.md). Times in seconds.

    Every `interval_seconds` it replays the last `window_seconds` in the simulator, if at least
    `least_questions` were answered in them, `questions` per candidate with each of `seeds`. A
    prediction that misses by more than `tolerance` (relative) doubles the interval, up to
    `most_backoff` times. A move must gain `least_gain` (relative) at least. `tenants` have a weight
    of their own. `enabled`: whether `hexgen up` starts one.
    """

    enabled: bool = False
    interval_seconds: Positive = 60.0
    window_seconds: Positive = 900.0
    least_questions: Annotated[int, Field(ge=40)] = 100
    questions: PositiveInt = 300
    seeds: PositiveInt = 2
    objective: Literal["p95", "attainment", "goodput"] = "p95"
    tolerance: Positive = 0.3
    most_backoff: PositiveInt = 16
    least_gain: Annotated[float, Field(ge=0, lt=1)] = 0.03
    tenants: tuple[str, ...] = ()
