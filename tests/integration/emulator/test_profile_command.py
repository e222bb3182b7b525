"""`hexgen profile` on an emulated instance: the terms come out as the emulated profile has them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from hexgen_celery.cli.root import hexgen
from hexgen_celery.llm import LlmClient
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.profiling_llm import MeasuringPlan, Prober, ProfileRefused, measure
from tests.integration.emulator.running_server import MODEL, SMALL, Pace, run_emulated

QUICK = replace(
    SMALL,
    prefill_tokens_per_second=4000.0,
    prefill_quadratic=2e-8,
    decode_base=0.02,
    decode_per_sequence=0.004,
    max_sequences=64,
)


def test_a_measured_profile_resembles_the_true_one(tmp_path: Path) -> None:
    path = tmp_path / "measured.toml"
    with run_emulated(Pace(profile=QUICK)) as server:
        arguments = ["profile", server.url, "--output", str(path), "--seconds", "40", "--json"]
        result = CliRunner().invoke(hexgen, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    report = json.loads(result.output.splitlines()[-1])
    read = load_profile(path)
    assert read.model == MODEL
    assert read.kv_tokens == QUICK.kv_tokens
    assert read.max_model_len == 4096
    assert read.prefill_tokens_per_second == pytest.approx(4000, rel=0.3)
    assert read.decode_step_seconds(8, 1024) == pytest.approx(
        QUICK.decode_step_seconds(8, 1024), rel=0.3
    )
    assert report["fit"]["decode"]["worst_error"] <= 0.25
    assert set(report["term_errors"]) >= {"prefill_tokens_per_second", "decode_per_sequence"}
    assert report["cache"]["cached_tokens"] > 0
    assert report["cache"]["warm_seconds"] < report["cache"]["cold_seconds"]


def test_a_server_without_a_gpus_timing_has_no_profile() -> None:
    plan = MeasuringPlan(4096, 8192, 64, budget_seconds=0.2)
    with (
        run_emulated(Pace(constant_seconds=0.1)) as server,
        LlmClient(server.url) as client,
        pytest.raises(ProfileRefused),
    ):
        measure(Prober(client, MODEL), plan)


def test_what_the_server_does_not_tell_must_be_given() -> None:
    with run_emulated(Pace(constant_seconds=0.0)) as server:
        arguments = ["profile", server.url, "--seconds", "5"]
        result = CliRunner().invoke(hexgen, arguments)
    assert result.exit_code != 0
    assert "kv_tokens" in str(result.exception)
