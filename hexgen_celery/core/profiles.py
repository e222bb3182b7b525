"""The speed of one instance of a pool: how long prefill and decode take, and what fits in memory.

The step model follows continuous batching with chunked prefill. One engine step that computes `p`
new prompt tokens (at positions whose mean context is `c`) and one token for each of `b` decoding
sequences with `k` tokens of context in all takes

    step = decode_base + decode_per_sequence · b + decode_per_context_token · k
         + p / prefill_tokens_per_second + prefill_quadratic · p · c          (seconds)

where the decode terms count only when `b > 0`. A step of prefill alone costs `prefill_base` and its
prefill time, or `decode_base` (weights must be read once) if that is longer. On GPUs `prefill_base`
is next to nothing; where launching a step costs as much as computing it, as on a CPU, it is not.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a profile's number comes from: `measured` (when, server, method) or `modelled`."""

    kind: str
    source: str


@dataclass(frozen=True, slots=True)
class Profile:
    """Speed and size of one instance. Times in seconds, sizes in tokens.

    Raises:
        ValueError: if a number is not positive where it must be; the message names the field.
    """

    name: str
    gpu: str
    gpus: int
    model: str
    prefill_tokens_per_second: float
    prefill_quadratic: float
    decode_base: float
    decode_per_sequence: float
    decode_per_context_token: float
    kv_tokens: int
    max_sequences: int
    max_model_len: int
    max_batched_tokens: int = 8192
    block_tokens: int = 16
    prefill_base: float = 0.0
    provenance: tuple[tuple[str, Provenance], ...] = ()

    def __post_init__(self) -> None:
        positive = (
            "gpus",
            "prefill_tokens_per_second",
            "decode_base",
            "kv_tokens",
            "max_sequences",
            "max_model_len",
            "max_batched_tokens",
            "block_tokens",
        )
        for field in positive:
            if not getattr(self, field) > 0:
                raise ValueError(f"{field} must be greater than 0, got {getattr(self, field)}")
        for field in (
            "prefill_base",
            "prefill_quadratic",
            "decode_per_sequence",
            "decode_per_context_token",
        ):
            if getattr(self, field) < 0:
                raise ValueError(f"{field} must not be negative, got {getattr(self, field)}")

    def prefill_seconds(self, tokens: float, context: float = 0.0) -> float:
        """Seconds that `tokens` new prompt tokens behind `context` cached ones add to a step."""
        mean_context = context + tokens / 2
        linear = tokens / self.prefill_tokens_per_second
        return linear + self.prefill_quadratic * tokens * mean_context

    def decode_step_seconds(self, sequences: float, context_tokens: float = 0.0) -> float:
        """Seconds of one decode step of `sequences` with `context_tokens` of context in all."""
        return (
            self.decode_base
            + self.decode_per_sequence * sequences
            + self.decode_per_context_token * context_tokens
        )

    def execution_seconds(
        self, uncached_tokens: float, input_tokens: float, output_tokens: float, batch: float = 1.0
    ) -> float:
        """Seconds for one request in a batch of `batch` equals: prefill, then every decode step."""
        context = batch * (input_tokens + output_tokens / 2)
        prefill = self.prefill_seconds(uncached_tokens, input_tokens - uncached_tokens)
        return (
            self.prefill_base + prefill + output_tokens * self.decode_step_seconds(batch, context)
        )
