"""How much an instance may take in, so that waiting happens in our queue and not in the engine.

Whatever an engine holds beyond what it can start waits in arrival order there, and the urgency
queue decides nothing. Two kinds:

- `allowance`: as much as fits the KV memory and a bounded prefill backlog.
- `fixed-slots`: a number of requests, as Celery's concurrency would; the baseline.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from hexgen_celery.core.defaults import DEFAULTS
from hexgen_celery.core.profiles import Profile
from hexgen_celery.core.registry import Registry
from hexgen_celery.core.views import RequestView


@dataclass(frozen=True, slots=True)
class ClaimCost:
    """What a request takes of an engine: KV tokens at its end, prompt tokens to compute."""

    kv_tokens: float
    prefill_tokens: float


@dataclass(frozen=True, slots=True)
class Allowance:
    """The room an instance has: KV tokens, prefill tokens, sequences."""

    kv_tokens: float
    prefill_tokens: float
    sequences: int

    def fits(self, cost: ClaimCost) -> bool:
        """Whether a request of this cost can start now."""
        return (
            self.sequences > 0
            and cost.kv_tokens <= self.kv_tokens
            and cost.prefill_tokens <= self.prefill_tokens
        )


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What an instance has claimed and not finished.

    `kv_tokens` reserves each running request's uncached prompt and expected output;
    `prefill_tokens` are the claimed prompt tokens not yet computed.
    """

    profile: Profile
    running: int = 0
    kv_tokens: float = 0.0
    prefill_tokens: float = 0.0


def claim_cost(request: RequestView, cached_tokens: int) -> ClaimCost:
    """The cost of a request of whose prompt `cached_tokens` are in the instance's cache."""
    uncached = max(0, request.input_tokens - cached_tokens)
    return ClaimCost(uncached + request.output_tokens, uncached)


class AdmissionPolicy(Protocol):
    """Turns an engine's load into the room it has left."""

    name: str

    def allowance(self, load: EngineLoad) -> Allowance:
        """What the engine may still take."""
        ...

    def allows(self, cost: ClaimCost, load: EngineLoad) -> bool:
        """Whether the engine may take a request of this cost now."""
        ...


ADMISSION: Registry[AdmissionPolicy] = Registry("admission policy")


def build_admission(name: str, **parameters: Any) -> AdmissionPolicy:
    """Build the admission policy `name`; raises `UnknownName` or `InvalidParameter`."""
    return ADMISSION.build(name, **parameters)


@dataclass(frozen=True, slots=True)
class AllowanceParameters:
    """`kv_share`: part of the KV memory that may be promised, the rest is for estimates that were
    too low. `prefill_seconds`: prefill that may be outstanding. `sequences`: at most so many
    running, 0 for the profile's limit."""

    kv_share: float = DEFAULTS.kv_share
    prefill_seconds: float = DEFAULTS.prefill_seconds
    sequences: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.kv_share <= 1.0:
            raise ValueError(f"kv_share must be in (0, 1], got {self.kv_share}")
        if self.prefill_seconds <= 0:
            raise ValueError(f"prefill_seconds must be positive, got {self.prefill_seconds}")
        if self.sequences < 0:
            raise ValueError(f"sequences must not be negative, got {self.sequences}")


@ADMISSION.register("allowance", AllowanceParameters)
class KvAndPrefillAllowance:
    """Free KV tokens and a bounded prefill backlog.

    A prompt larger than the whole allowance starts once no prefill is outstanding, and one larger
    than the promised KV share once nothing runs: nothing that fits the engine is shut out.
    """

    name = "allowance"

    def __init__(self, parameters: AllowanceParameters) -> None:
        self._parameters = parameters

    def allowance(self, load: EngineLoad) -> Allowance:
        profile, chosen = load.profile, self._parameters
        limit = min(chosen.sequences or profile.max_sequences, profile.max_sequences)
        backlog = chosen.prefill_seconds * profile.prefill_tokens_per_second
        kv = chosen.kv_share * profile.kv_tokens - load.kv_tokens
        return Allowance(
            kv_tokens=kv if load.running else math.inf,
            prefill_tokens=backlog - load.prefill_tokens if load.prefill_tokens > 0 else math.inf,
            sequences=max(0, limit - load.running),
        )

    def allows(self, cost: ClaimCost, load: EngineLoad) -> bool:
        return self.allowance(load).fits(cost)


@dataclass(frozen=True, slots=True)
class FixedSlotsParameters:
    """`slots`: requests an engine may hold."""

    slots: int = 16

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f"slots must be at least 1, got {self.slots}")


@ADMISSION.register("fixed-slots", FixedSlotsParameters)
class FixedSlots:
    """A fixed number of requests, whatever their size."""

    name = "fixed-slots"

    def __init__(self, parameters: FixedSlotsParameters) -> None:
        self._slots = parameters.slots

    def allowance(self, load: EngineLoad) -> Allowance:
        return Allowance(math.inf, math.inf, max(0, self._slots - load.running))

    def allows(self, _cost: ClaimCost, load: EngineLoad) -> bool:
        return load.running < self._slots
