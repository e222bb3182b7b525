"""Real vLLM on the CPU build. `make test-vllm` makes what these tests need, then runs them.

One server of each model serves all tests. Without the environment or the models nothing is tested,
which is said with exit code 75 and never looks like success.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hexgen_celery.demo.build import data_directory
from tests.vllm.serving import SMALL, TINY, ServedModel, served, small_config, tiny_config
from workers.vllm_cpu import environment, models
from workers.vllm_cpu.running import UNAVAILABLE_EXIT


@pytest.fixture(scope="session", autouse=True)
def _needed() -> None:
    if not environment.is_ready():
        pytest.exit("no CPU build of vLLM: run make vllm-env", returncode=UNAVAILABLE_EXIT)
    for name in (SMALL, TINY):
        if not models.is_made(models.DIRECTORY / name):
            pytest.exit(f"no model {name}: run make model", returncode=UNAVAILABLE_EXIT)


@pytest.fixture(scope="session")
def _no_settings_of_a_developer() -> None:
    """Servers of the session are started before the fixtures of any one test."""
    for name in list(os.environ):
        if name.startswith("HEXGEN_") and name != "HEXGEN_DATA":
            del os.environ[name]


@pytest.fixture(scope="session")
def tiny(
    tmp_path_factory: pytest.TempPathFactory, _no_settings_of_a_developer: None
) -> Iterator[ServedModel]:
    """The two-layer model of random weights, for the protocol."""
    home = tmp_path_factory.mktemp("tiny")
    with served(home, tiny_config(home), TINY) as running:
        yield running


@pytest.fixture(scope="session")
def small(
    tmp_path_factory: pytest.TempPathFactory, _no_settings_of_a_developer: None
) -> Iterator[ServedModel]:
    """SmolLM2-135M, for the pipeline: real, and mostly wrong."""
    home = tmp_path_factory.mktemp("small")
    profile = Path(str(data_directory() / "cpu-x1-smollm2-135m.toml"))
    with served(home, small_config(home, profile), SMALL) as running:
        yield running
