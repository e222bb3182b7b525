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


def test_a_pool_without_instances_of_its_own_is_joined_too() -> None:
    empty = PoolSettings(name="y", gpu="a100", model="m", profile=POOL.profile)
    served = find_served(Settings(pools=(empty,)), "a9", "y", "http://9")
    assert (served.name, served.pool, served.instance.url) == ("a9", empty, "http://9")


def test_an_unknown_one_or_pool_is_refused_with_what_is_known() -> None:
    with pytest.raises(InvalidSettings, match="a9"):
        find_served(SETTINGS, "a9")
    with pytest.raises(InvalidSettings, match=r"declared: gpu\.a100\.x"):
        find_served(SETTINGS, "a9", "y", "http://9")


def test_pools_of_one_name_are_told_apart_by_their_queues() -> None:
    other = PoolSettings(
        name="x",
        gpu="l40s",
        model="m",
        profile="l40s-x1-qwen3-30b-a3b",
        instances=(InstanceSettings(name="l1", url="http://2"),),
    )
    settings = Settings(pools=(POOL, other))
    with pytest.raises(InvalidSettings, match=r"gpu\.a100\.x or gpu\.l40s\.x"):
        find_served(settings, "a9", "x", "http://9")
    assert find_served(settings, "a9", "gpu.l40s.x", "http://9").pool == other


@pytest.mark.parametrize(
    ("name", "pool", "url", "words"),
    [
        ("a1", "x", "http://9", r"'a1' is declared.*leave out --pool and --url"),
        ("a9", "x", "", "--url URL"),
        ("a 9", "x", "http://9", r"letters, digits"),
    ],
)
def test_what_cannot_join_is_told_with_a_hint(name: str, pool: str, url: str, words: str) -> None:
    with pytest.raises(InvalidSettings, match=words):
        find_served(SETTINGS, name, pool, url)


def test_what_cannot_be_served_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEXGEN_BROKER__URL", "redis://127.0.0.1:1/0")
    assert main(["--instance", "a9", "--pool", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
