"""What a profile measures within its time, and what servers tell of themselves."""

from __future__ import annotations

import pytest

from hexgen_celery.profiling_llm import MeasuringPlan, ProfileRefused, measure
from hexgen_celery.profiling_llm.samples import CacheEffect, DecodeSample, PrefillSample
from hexgen_celery.profiling_llm.server_facts import cache_config, max_model_len


class SlowProbe:
    """Takes a second for every thousand tokens, and for every batch."""

    def __init__(self) -> None:
        self.now = 0.0

    def prefill(self, tokens: int, repeats: int) -> PrefillSample:
        self.now += repeats * tokens / 1000
        return PrefillSample(tokens, tokens / 1000)

    def decode(self, batch: int, context: int, steps: int, repeats: int) -> DecodeSample:
        self.now += repeats * batch
        return DecodeSample(batch, batch * context, 0.01)

    def cache_effect(self, tokens: int) -> CacheEffect:
        self.now += tokens / 1000
        return CacheEffect(tokens, 1.0, 1.0, 0)


def _measure(plan: MeasuringPlan) -> tuple[SlowProbe, list[int], list[float]]:
    probe = SlowProbe()
    measured = measure(probe, plan, lambda: probe.now)
    return probe, [s.tokens for s in measured.prefill], [s.batch for s in measured.decode]


def test_measuring_ends_within_its_budget() -> None:
    plan = MeasuringPlan(32_768, 100_000, 256, budget_seconds=60)
    probe, lengths, batches = _measure(plan)
    assert probe.now <= 60
    assert lengths[:3] == [64, 128, 256]
    assert max(lengths) < 16_384
    assert len(batches) >= 4


def test_what_the_server_cannot_hold_is_not_asked() -> None:
    plan = MeasuringPlan(4096, 8192, 4, budget_seconds=1000)
    _, lengths, batches = _measure(plan)
    assert max(lengths) <= 0.8 * 4096
    assert max(batches) <= 4
    assert all(b * (c + plan.steps) <= 0.8 * 8192 for b, c in plan.decode_points())


def test_too_little_time_is_refused_with_the_remedy() -> None:
    with pytest.raises(ProfileRefused, match="--seconds"):
        _measure(MeasuringPlan(32_768, 100_000, 256, budget_seconds=2))


def test_a_vllm_server_tells_its_kv_cache() -> None:
    text = (
        "# HELP vllm:cache_config_info x\n# TYPE vllm:cache_config_info gauge\n"
        'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100"} 1.0\n'
    )
    assert cache_config(text)["num_gpu_blocks"] == "100"
    assert cache_config("not metrics at all {") == {}
    assert cache_config("") == {}


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ('{"data": [{"id": "m", "max_model_len": 4096}]}', 4096),
        ('{"data": [{"id": "m"}]}', None),
        ('{"data": 3}', None),
        ("[]", None),
        ("<html>", None),
    ],
)
def test_the_context_length_is_read_where_it_is_told(listed: str, expected: int | None) -> None:
    assert max_model_len(listed, "m") == expected
