"""`hexgen doctor` where a pool is served by instances alone that register themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from hexgen_celery.cli.root import hexgen
from hexgen_celery.instances import InstanceDirectory, InstanceRecord
from hexgen_celery.keys import Keys
from tests.integration.workers.fake_llm import FakeLlm

pytestmark = pytest.mark.integration

CONFIGURATION = """
[[pools]]
name = "x"
gpu = "a100"
model = "fake-model"
profile = "a100-80g-x1-qwen3-30b-a3b"
"""


def _doctor() -> dict[str, dict[str, Any]]:
    shown = CliRunner().invoke(hexgen, ["doctor", "--json"]).output
    found = json.loads(shown.splitlines()[-1])
    return {check["name"]: check for check in found}


def test_the_servers_that_joined_it_are_asked(
    redis_client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEXGEN_BROKER__URL", redis_url)
    (tmp_path / "hexgen.toml").write_text(CONFIGURATION)
    empty = _doctor()
    assert empty["pool gpu.a100.x"]["verdict"] == "warning"
    assert empty["instances"]["verdict"] == "failed"
    assert "--pool POOL --url URL" in empty["instances"]["hint"]
    with FakeLlm() as server:
        record = InstanceRecord(
            "a1", "gpu.a100.x", "a100", server.model, "a100-80g-x1-qwen3-30b-a3b",
            server.url, "llm-a1@h", 8,
        )  # fmt: skip
        InstanceDirectory(redis_client, Keys("hexgen")).announce(record)
        joined = _doctor()
    assert joined["instance a1"]["verdict"] == "ok"
    assert "pool gpu.a100.x" not in joined
    assert "instances" not in joined
