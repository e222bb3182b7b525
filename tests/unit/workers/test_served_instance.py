"""Which instance an LLM worker serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.settings import InstanceSettings, PoolSettings, Settings
from workers.llm import find_served, main

POOL = PoolSettings(
    name="x",
    gpu="a100",
    model="m",
    profile="a100-80g-x1-qwen3-30b-a3b",
    instances=(InstanceSettings(name="a1", url="http://1"),),
)
SETTINGS = Settings(pools=(POOL,))


def test_a_declared_one_by_its_name() -> None:
    served = find_served(SETTINGS, "a1")
    assert (served.name, served.pool, served.instance.url) == ("a1", POOL, "http://1")


def test_a_new_one_joins_a_declared_pool() -> None:
    served = find_served(SETTINGS, "a9", "x", "http://9")
    assert (served.name, served.pool, served.instance.url) == ("a9", POOL, "http://9")


def test_an_unknown_one_or_pool_is_refused_with_what_is_known() -> None:
    with pytest.raises(InvalidSettings, match="a9"):
        find_served(SETTINGS, "a9")
    with pytest.raises(InvalidSettings, match="declared: x"):
        find_served(SETTINGS, "a9", "y", "http://9")


def test_what_cannot_be_served_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEXGEN_BROKER__URL", "redis://127.0.0.1:1/0")
    assert main(["--instance", "a9", "--pool", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
