"""What must be there before vLLM starts, each with the error of its absence."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from hexgen_celery.errors import InvalidSettings, MissingPrerequisite
from workers.vllm_preflight import check_model, check_port, find_program


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model's directory with a configuration of 4 heads and 4,096 tokens."""
    _configure(tmp_path, max_position_embeddings=4096, num_attention_heads=4)
    return tmp_path


def _configure(model: Path, **values: Any) -> None:
    (model / "config.json").write_text(json.dumps(values))


def test_the_program_may_be_a_path_or_a_name_in_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "some-vllm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_program(str(program)) == str(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("some-vllm") == str(program)


@pytest.mark.parametrize("name", ["no-such-vllm", "/no/such/vllm"])
def test_a_missing_program_says_how_to_install_it(name: str) -> None:
    with pytest.raises(MissingPrerequisite) as missing:
        find_program(name)
    assert name in missing.value.message
    assert "hexgen-celery[vllm]" in missing.value.hint
    assert "make vllm-env" in missing.value.hint


def test_a_model_that_fits_passes(model: Path) -> None:
    check_model(str(model), 4096, 2)


def test_a_repository_is_left_to_vllm() -> None:
    check_model("meta-llama/Llama-3.1-70B-Instruct", 131_072, 8)


def test_a_missing_model_says_how_to_make_one() -> None:
    with pytest.raises(MissingPrerequisite) as missing:
        check_model("build/models/absent", 2048, 1)
    assert "build/models/absent" in missing.value.message
    assert "make model" in missing.value.hint


def test_a_broken_configuration_is_named(model: Path) -> None:
    (model / "config.json").write_text("{")
    with pytest.raises(MissingPrerequisite, match="not JSON"):
        check_model(str(model), 2048, 1)


def test_a_context_beyond_the_models_is_refused(model: Path) -> None:
    with pytest.raises(InvalidSettings) as refused:
        check_model(str(model), 8192, 1)
    assert refused.value.field == "pools.max_model_len"
    assert "4096" in refused.value.hint


def test_a_stretched_context_is_left_to_vllm(model: Path) -> None:
    _configure(model, max_position_embeddings=4096, rope_scaling={"factor": 4.0})
    check_model(str(model), 16_384, 1)


def test_heads_that_cannot_be_shared_are_refused(model: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"4 attention heads .* by 3 GPUs"):
        check_model(str(model), 2048, 3)


def test_a_taken_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(InvalidSettings, match=f"127.0.0.1:{port}") as refused:
            check_port("127.0.0.1", port)
        assert "another port" in refused.value.hint
    check_port("127.0.0.1", port)
