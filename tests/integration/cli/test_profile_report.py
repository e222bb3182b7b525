"""What `hexgen profile` shows and asks for; the measuring itself is replaced by known times."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner

from hexgen_celery.cli import profile
from hexgen_celery.cli.root import hexgen
from hexgen_celery.errors import ModelUnavailable
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.profiling_llm.samples import (
    CacheEffect,
    DecodeSample,
    Measurements,
    PrefillSample,
    ProfileRefused,
)
from tests.integration.emulator.running_server import (
    MODEL,
    Pace,
    RunningServer,
    run_app,
    run_emulated,
)

KNOWN = Measurements(
    tuple(PrefillSample(n, 0.002 + n / 5000) for n in (512, 1024, 2048)),
    tuple(DecodeSample(b, b * 128.0, 0.02 + 0.001 * b) for b in (1, 2, 4, 8)),
    CacheEffect(2048, 0.41, 0.02, 2032),
    12.0,
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningServer]:
    monkeypatch.setattr(profile, "measure", lambda _probe, _plan: KNOWN)
    with run_emulated(Pace()) as running:
        yield running


def test_terms_are_shown_with_their_errors_and_the_effect_of_the_cache(
    server: RunningServer, tmp_path: Path
) -> None:
    path = tmp_path / "known.toml"
    arguments = ["profile", server.url, "--kv-tokens", "9000", "--gpu", "H9", "--output", str(path)]
    result = CliRunner().invoke(hexgen, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "prefill_tokens_per_second" in result.output
    assert "2032 of 2048 tokens" in result.output
    assert "fit error" in result.output
    read = load_profile(path)
    assert (read.name, read.gpu, read.kv_tokens) == (f"h9-x1-{MODEL}", "H9", 9000)
    assert read.prefill_tokens_per_second == pytest.approx(5000, rel=0.01)
    assert dict(read.provenance)["kv_tokens"].kind == "modelled"


def test_a_fit_worse_than_accepted_is_refused(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uneven = replace(KNOWN, decode=(*KNOWN.decode[:-1], DecodeSample(8, 1024.0, 0.033)))
    monkeypatch.setattr(profile, "measure", lambda _probe, _plan: uneven)
    path = tmp_path / "refused.toml"
    arguments = ["profile", server.url, "--kv-tokens", "9000", "--output", str(path)]
    result = CliRunner().invoke(hexgen, [*arguments, "--accept", "0.1"])
    assert isinstance(result.exception, ProfileRefused)
    assert "--accept" in str(result.exception)
    assert not path.exists()


def test_limits_are_those_given_else_vllms_defaults(server: RunningServer, tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    arguments = ["profile", server.url, "--kv-tokens", "9000", "--output", str(path)]
    CliRunner().invoke(hexgen, [*arguments, "--max-sequences", "8"], catch_exceptions=False)
    read = load_profile(path)
    sources = {name: origin.source for name, origin in read.provenance}
    assert (read.max_sequences, read.max_batched_tokens) == (8, 8192)
    assert sources["max_sequences"] == "given on the command line"
    assert "vLLM's default" in sources["max_batched_tokens"]


def test_one_of_several_models_must_be_named() -> None:
    def build() -> web.Application:
        async def models(_request: web.Request) -> web.Response:
            return web.json_response({"data": [{"id": "one"}, {"id": "two"}]})

        app = web.Application()
        app.router.add_get("/v1/models", models)
        return app

    with run_app(build) as several:
        result = CliRunner().invoke(hexgen, ["profile", several.url])
    assert "serves 2 models: one, two" in str(result.exception)


def test_a_server_that_never_answers_is_given_up_within_the_time(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        result = CliRunner().invoke(hexgen, ["profile", url, "--seconds", "1"])
    assert isinstance(result.exception, ModelUnavailable)
    assert "gave no answer within 1 s" in str(result.exception)
