"""What a profiler measures, as plain values. Times in seconds, sizes in tokens."""

from __future__ import annotations

from dataclasses import dataclass

from hexgen_celery.errors import HexgenError


class ProfileRefused(HexgenError):
    """Raised when measurements do not make a profile that could be trusted."""

    code = "profile_refused"


@dataclass(frozen=True, slots=True)
class PrefillSample:
    """`tokens` of a prompt that no cache knew, and the time to its first token."""

    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DecodeSample:
    """One decode step of `batch` sequences (a mean) with `context_tokens` of context in all."""

    batch: float
    context_tokens: float
    step_seconds: float


@dataclass(frozen=True, slots=True)
class CacheEffect:
    """One prompt sent twice: times to the first token, and tokens the second did not compute.

    `cached_tokens` is the server's own count for the second; 0 where it reports none.
    """

    input_tokens: int
    cold_seconds: float
    warm_seconds: float
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Measurements:
    """Everything measured of one server, and how long that took."""

    prefill: tuple[PrefillSample, ...]
    decode: tuple[DecodeSample, ...]
    cache: CacheEffect | None
    seconds: float
