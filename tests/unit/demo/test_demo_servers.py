"""Who answers in the demo, what is said of it, and what its cluster is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from hexgen_celery.cli import cluster_file
from hexgen_celery.cli.cluster_file import SMALL_MODEL, cpu_vllm_cluster
from hexgen_celery.cli.cpu_precision import BFLOAT16, FLOAT32, Precision
from hexgen_celery.cli.demo_servers import (
    CPU_SLO,
    EMULATED_SLO,
    VLLM_CPU,
    ServerChoice,
    choose_servers,
)
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.settings import LlmSettings, PoolSettings, Settings, load_settings
from hexgen_celery.settings.questions import PipelineSettings
from workers.vllm_command import VllmCommand, vllm_command


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The demo's cluster on real vLLM."""
    config = tmp_path / "cluster.toml"
    config.write_text(cpu_vllm_cluster(tmp_path))
    return load_settings(config)


def test_the_tiny_model_is_called_tiny_and_mostly_wrong() -> None:
    servers = choose_servers(None, None, 1.0, LlmSettings(), VLLM_CPU)
    assert servers.is_tiny
    assert servers.slo is CPU_SLO
    assert SMALL_MODEL in servers.description
    assert "real vLLM server" in servers.description
    assert "tiny and mostly wrong" in servers.description


def test_emulated_servers_are_the_default() -> None:
    servers = choose_servers(None, None, 1.0, LlmSettings(), "emulated")
    assert not servers.is_tiny
    assert servers.slo is EMULATED_SLO
    assert "emulated servers" in servers.description


def test_an_engine_with_its_own_server_takes_no_other() -> None:
    with pytest.raises(InvalidSettings, match="brings its own server and model"):
        choose_servers("http://127.0.0.1:1", None, 1.0, LlmSettings(), VLLM_CPU)


def _command(pool: PoolSettings) -> VllmCommand:
    """That of its one instance, on a port as `hexgen up` gives it one."""
    (instance,) = pool.instances
    placed = instance.model_copy(update={"port": 8000})
    return vllm_command(pool, placed, load_profile(pool.profile))


def test_its_cluster_serves_the_model_of_make_model(settings: Settings) -> None:
    (pool,) = settings.pools
    command = _command(pool)
    assert command.arguments[0].endswith(".venv-vllm/bin/vllm")
    assert command.arguments[2].endswith("build/models/smollm2")
    assert "--no-enable-chunked-prefill" in command.arguments


def test_its_settings_suit_a_model_that_is_mostly_wrong(settings: Settings) -> None:
    """More candidates than usual, shorter ones, and work is left out where the machine is slow."""
    usual = PipelineSettings()
    assert settings.pipeline.candidates > usual.candidates
    assert settings.pipeline.max_tokens < usual.max_tokens
    assert settings.pipeline.temperature < usual.temperature
    assert settings.pipeline.structured
    assert settings.pipeline.degrade


@pytest.mark.parametrize("precision", [BFLOAT16, FLOAT32])
def test_its_server_computes_in_what_the_processor_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: Precision
) -> None:
    monkeypatch.setattr(cluster_file, "quick_precision", lambda: precision)
    config = tmp_path / "cluster.toml"
    config.write_text(cpu_vllm_cluster(tmp_path))
    (pool,) = load_settings(config).pools
    command = _command(pool)
    place = command.arguments.index("--dtype")
    assert command.arguments[place + 1] == precision.dtype
    assert command.environment["VLLM_CPU_KVCACHE_SPACE"] == str(precision.kv_gib)


def test_answers_are_judged_only_where_a_model_gave_them() -> None:
    assert choose_servers(None, None, 1.0, LlmSettings(), VLLM_CPU).is_real
    assert not choose_servers(None, None, 1.0, LlmSettings(), "emulated").is_real
    assert ServerChoice(1.0, "http://gpu:8000", "m", "0.33.0").is_real
    assert not ServerChoice(1.0, "http://gpu:8000", "m", "emulated-1").is_real
