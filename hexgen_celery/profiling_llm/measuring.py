"""The course of a profile's measurements within a budget of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hexgen_celery.profiling_llm.samples import (
    CacheEffect,
    DecodeSample,
    Measurements,
    PrefillSample,
    ProfileRefused,
)

Point = TypeVar("Point")
Sample = TypeVar("Sample")

LEAST_PREFILLS = 3
LEAST_DECODES = 4


@dataclass(frozen=True, slots=True)
class MeasuringPlan:
    """What to measure. `budget_seconds` is for everything; prefill may take `prefill_share` of it.

    Lengths and contexts beyond `max_model_len`, and batches beyond `kv_share` of `kv_tokens`, are
    left out. The best of `repeats` counts, because a disturbance only ever makes it slower. The
    shortest prompts tell what a prefill costs beside its tokens.
    """

    max_model_len: int
    kv_tokens: int
    max_sequences: int
    budget_seconds: float = 180.0
    prefill_share: float = 0.45
    lengths: tuple[int, ...] = (
        64,
        128,
        256,
        512,
        1024,
        2048,
        3072,
        4096,
        6144,
        8192,
        12288,
        16384,
        24576,
    )
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    contexts: tuple[int, ...] = (128, 2048)
    steps: int = 32
    repeats: int = 2
    cache_tokens: int = 2048
    kv_share: float = 0.8

    def prefill_lengths(self) -> Iterator[int]:
        """Prompt lengths that the server can take, the shortest first."""
        limit = min(self.max_model_len - self.steps, self.kv_tokens) * self.kv_share
        return (length for length in self.lengths if length <= limit)

    def decode_points(self) -> Iterator[tuple[int, int]]:
        """Batch and context of each, smallest first."""
        points = ((batch, context) for batch in self.batches for context in self.contexts)
        room = self.kv_share * self.kv_tokens
        longest = self.max_model_len * self.kv_share - self.steps
        return (
            (batch, context)
            for batch, context in points
            if batch <= self.max_sequences
            and context <= longest
            and batch * (context + self.steps) <= room
        )


class Probe(Protocol):
    """Where measurements come from."""

    def prefill(self, tokens: int, repeats: int) -> PrefillSample:
        """The time of a fresh prompt."""
        ...

    def decode(self, batch: int, context: int, steps: int, repeats: int) -> DecodeSample:
        """The time of a step."""
        ...

    def cache_effect(self, tokens: int) -> CacheEffect:
        """One prompt twice."""
        ...


def measure(
    probe: Probe, plan: MeasuringPlan, now: Callable[[], float] = time.monotonic
) -> Measurements:
    """Measure until all is measured or the next measurement would not fit into the budget.

    Raises:
        ProfileRefused: the budget allows too few measurements to fit anything.
    """
    start = now()
    prefill_until = start + plan.budget_seconds * plan.prefill_share
    prefill = _within(
        prefill_until, now, plan.prefill_lengths(), lambda n: probe.prefill(n, plan.repeats)
    )
    _refuse_too_few("prompt lengths", len(prefill), LEAST_PREFILLS, plan)
    cache_tokens = min(plan.cache_tokens, max(sample.tokens for sample in prefill))
    cache = probe.cache_effect(cache_tokens)
    decode = _within(
        start + plan.budget_seconds,
        now,
        plan.decode_points(),
        lambda point: probe.decode(*point, plan.steps, plan.repeats),
    )
    _refuse_too_few("batches", len(decode), LEAST_DECODES, plan)
    return Measurements(tuple(prefill), tuple(decode), cache, now() - start)


def _within(
    until: float,
    now: Callable[[], float],
    points: Iterable[Point],
    take: Callable[[Point], Sample],
) -> list[Sample]:
    """Samples of `points` while the next, thought to take twice as long as the last, fits."""
    samples: list[Sample] = []
    took = 0.0
    for point in points:
        began = now()
        if samples and began + 2 * took > until:
            break
        samples.append(take(point))
        took = now() - began
    return samples


def _refuse_too_few(what: str, count: int, least: int, plan: MeasuringPlan) -> None:
    if count < least:
        raise ProfileRefused(
            f"only {count} {what} could be measured in {plan.budget_seconds:g} s, "
            f"{least} are needed",
            field="seconds",
            hint="allow more time (--seconds), or check that the server is idle and its context "
            "and KV cache are large enough",
        )
