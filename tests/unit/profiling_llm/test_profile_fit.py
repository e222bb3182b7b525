"""Fitting a profile's terms to measured times, and when that is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.core.profiles import Profile, Provenance
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.profiling_llm import Hardware, ProfileRefused, build_profile, profile_text
from hexgen_celery.profiling_llm.fit import Row, fit_decode, fit_prefill, fit_terms
from hexgen_celery.profiling_llm.samples import (
    CacheEffect,
    DecodeSample,
    Measurements,
    PrefillSample,
)
from tests.small_profile import small_profile

LENGTHS = (512, 1024, 2048, 4096, 8192)
POINTS = [(batch, context) for batch in (1, 4, 16) for context in (128, 2048)]
HARDWARE = Hardware(
    name="measured",
    gpu="T",
    gpus=1,
    model="m",
    kv_tokens=100_000,
    kv_source=Provenance("measured", "reported"),
    max_model_len=16_384,
    max_model_len_source=Provenance("measured", "reported"),
)


def _profile(rate: float = 5000.0, quadratic: float = 4e-9, base: float = 0.03) -> Profile:
    return small_profile(
        name="true",
        prefill_tokens_per_second=rate,
        prefill_quadratic=quadratic,
        decode_base=base,
        decode_per_sequence=0.0005,
        decode_per_context_token=1e-7,
        kv_tokens=100_000,
        max_sequences=64,
        max_model_len=16_384,
    )


def _measured(profile: Profile, noise: float = 0.0, overhead: float = 0.0) -> Measurements:
    rng = random.Random(3)
    prefill = tuple(
        PrefillSample(n, (overhead + profile.prefill_seconds(n)) * (1 + noise * rng.uniform(-1, 1)))
        for n in LENGTHS
    )
    decode = tuple(
        DecodeSample(
            b,
            b * c,
            profile.decode_step_seconds(b, b * c) * (1 + noise * rng.uniform(-1, 1)),
        )
        for b, c in POINTS
    )
    return Measurements(prefill, decode, CacheEffect(2048, 0.4, 0.05, 2032), 12.0)


@given(
    rate=st.floats(500, 50_000),
    quadratic=st.floats(1e-10, 1e-7),
    overhead=st.floats(0, 0.01),
)
def test_exact_times_give_back_the_terms(rate: float, quadratic: float, overhead: float) -> None:
    measured = _measured(_profile(rate, quadratic), overhead=overhead)
    fit = fit_prefill(measured.prefill)
    assert 1 / fit.terms["per_token"] == pytest.approx(rate, rel=0.02)
    assert fit.worst_error < 0.001
    decode = fit_decode(measured.decode)
    assert decode.terms["base"] == pytest.approx(0.03, rel=1e-4)
    assert decode.terms["per_sequence"] == pytest.approx(0.0005, rel=1e-3)
    assert decode.terms["per_context_token"] == pytest.approx(1e-7, rel=1e-3)


def test_what_a_prefill_costs_beside_its_tokens_goes_into_the_profile() -> None:
    built = build_profile(_measured(_profile(), overhead=0.06), HARDWARE, "today", "server")
    assert built.profile.prefill_base == pytest.approx(0.06, rel=1e-3)
    assert built.profile.prefill_tokens_per_second == pytest.approx(5000, rel=1e-3)


def test_a_term_that_would_be_negative_is_left_out() -> None:
    rows = [Row((1.0, float(n)), 1.0 - 0.01 * n) for n in range(1, 6)]
    fit = fit_terms(("constant", "slope"), rows)
    assert fit.terms["slope"] == 0
    assert fit.terms["constant"] == pytest.approx(0.97, abs=0.02)


def test_terms_that_cannot_be_told_apart_do_not_divide_by_zero() -> None:
    fit = fit_terms(("one", "same"), [Row((1.0, 1.0), 2.0), Row((1.0, 1.0), 2.0)])
    assert sum(fit.terms.values()) == pytest.approx(2.0)


def test_a_fit_needs_times() -> None:
    with pytest.raises(ValueError):
        fit_terms(("one",), [])
    with pytest.raises(ValueError):
        fit_terms(("one",), [Row((1.0,), 0.0)])


def test_noise_shows_in_the_errors_of_the_terms() -> None:
    quiet = build_profile(_measured(_profile()), HARDWARE, "today", "server")
    noisy = build_profile(_measured(_profile(), noise=0.05), HARDWARE, "today", "server")
    assert noisy.errors["decode_base"] > quiet.errors["decode_base"]
    assert noisy.prefill.worst_error > quiet.prefill.worst_error


def test_a_fit_worse_than_a_quarter_is_refused() -> None:
    with pytest.raises(ProfileRefused, match="misses a measured time by"):
        build_profile(_measured(_profile(), noise=0.9), HARDWARE, "today", "server")


def test_a_server_whose_prefill_costs_nothing_is_refused() -> None:
    flat = tuple(PrefillSample(n, 0.1) for n in LENGTHS)
    good = _measured(_profile())
    measured = Measurements(flat, good.decode, None, 1.0)
    with pytest.raises(ProfileRefused, match="do not grow"):
        build_profile(measured, HARDWARE, "today", "server")


def test_the_written_file_is_read_back_as_the_same_profile(tmp_path: Path) -> None:
    built = build_profile(_measured(_profile(), noise=0.02), HARDWARE, "2026-01-01", 'a "server"')
    path = tmp_path / "measured.toml"
    path.write_text(profile_text(built.profile, ["two words"]), encoding="utf-8")
    read = load_profile(path)
    assert read.prefill_tokens_per_second == built.profile.prefill_tokens_per_second
    assert read.decode_per_context_token == built.profile.decode_per_context_token
    assert read.kv_tokens == 100_000
    kinds = dict(read.provenance)
    assert kinds["decode_base"].kind == "measured"
    assert 'a "server"' in kinds["decode_base"].source
    assert kinds["max_sequences"].kind == "modelled"
    assert built.to_json()["cache"]["cached_tokens"] == 2032
