"""A profile to build tests on: an instance whose times are easy to work out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hexgen_celery.core.profiles import Profile

SMALL_PROFILE = Profile(
    name="small",
    gpu="T",
    gpus=1,
    model="m",
    prefill_tokens_per_second=1000.0,
    prefill_quadratic=0.0,
    decode_base=0.01,
    decode_per_sequence=0.001,
    decode_per_context_token=0.0,
    kv_tokens=8192,
    max_sequences=8,
    max_model_len=4096,
)
"""Prefill of a thousand tokens takes a second, a decode step of n sequences 10 + n ms."""


def small_profile(**differing: Any) -> Profile:
    """`SMALL_PROFILE` but for these fields."""
    return replace(SMALL_PROFILE, **differing)


def pool_profile(gpu: str, factor: float, **differing: Any) -> Profile:
    """A profile with room for many requests, `factor` times slower than the fastest such one."""
    return small_profile(
        **{
            "name": gpu.lower(),
            "gpu": gpu,
            "prefill_tokens_per_second": 8000.0 / factor,
            "decode_base": 0.02 * factor,
            "decode_per_sequence": 0.002 * factor,
            "kv_tokens": 60_000,
            "max_sequences": 32,
            "max_model_len": 16_000,
            **differing,
        }
    )
