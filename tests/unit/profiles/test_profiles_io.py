"""Profiles, cluster files and prices: what ships is right, what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from hexgen_celery.errors import InvalidProfile
from hexgen_celery.profiles_io import load_fleet, load_prices, load_profile, shipped_profiles

PROFILES = sorted(path for path in shipped_profiles().glob("*.toml") if path.stem != "prices")
CLUSTERS = sorted((shipped_profiles() / "clusters").glob("*.toml"))


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_every_shipped_number_says_where_it_comes_from(path: Path) -> None:
    profile = load_profile(path.stem)
    assert profile.name == path.stem
    assert len(profile.provenance) == 10
    assert {origin.kind for _, origin in profile.provenance} <= {"measured", "modelled"}
    # A useful server holds at least a few of the longest prompts and decodes above 10 tokens/s.
    assert profile.kv_tokens >= 4 * 14_000
    assert profile.decode_step_seconds(1, 10_000) < 0.1


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_shipped_clusters_load(path: Path) -> None:
    fleet = load_fleet(path.stem)
    assert fleet.name == path.stem
    assert len(fleet.instances) == 4


def test_the_heterogeneous_cluster_has_three_pools() -> None:
    assert load_fleet("het-70b").pools == ("a100-70b", "l40s-70b", "a6000-70b")


def test_prices_cover_every_shipped_gpu() -> None:
    assert {load_profile(path.stem).gpu for path in PROFILES} <= set(load_prices())


GOOD = shipped_profiles() / "l40s-x4-llama-3.1-70b.toml"


def broken(tmp_path: Path, old: str, new: str) -> Path:
    text = GOOD.read_text()
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('gpu = "L40S"', "", "gpu"),
        ("gpus = 4", 'gpus = "four"', "gpus"),
        ("value = 3000.0", "value = -1.0", "prefill_tokens_per_second"),
        ("value = 100000", "value = 0.5", "kv_tokens"),
        ("decode_base = {", "decode_bass = {", "decode_bass"),
        ('kind = "modelled"', 'kind = "guessed"', "prefill_tokens_per_second.kind"),
    ],
)
def test_a_wrong_profile_names_file_and_field(
    tmp_path: Path, old: str, new: str, field: str
) -> None:
    path = broken(tmp_path, old, new)
    with pytest.raises(InvalidProfile) as caught:
        load_profile(path)
    assert caught.value.field == field
    assert str(path) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("decode_base = 0.05", "decode_base"),
        ('decode_base = { value = 0.05, kind = "measured" }', "decode_base.source"),
    ],
)
def test_a_number_without_its_source_is_refused(tmp_path: Path, text: str, field: str) -> None:
    path = tmp_path / "mine.toml"
    lines = [line for line in GOOD.read_text().splitlines() if not line.startswith("decode_base")]
    path.write_text("\n".join([*lines, text]))
    with pytest.raises(InvalidProfile) as caught:
        load_profile(path)
    assert caught.value.field == field


def test_optional_numbers_have_defaults(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    lines = [line for line in GOOD.read_text().splitlines() if not line.startswith("block_tokens")]
    path.write_text("\n".join(lines))
    assert load_profile(path).block_tokens == 16


def test_an_unknown_name_lists_those_known() -> None:
    with pytest.raises(InvalidProfile, match="a100-80g-x4"):
        load_profile("a100")
    with pytest.raises(InvalidProfile, match="het-70b"):
        load_fleet("nowhere")


CLUSTER = """
name = "mine"
model = "Llama-3.1-70B"
[[instances]]
name = "one"
pool = "p"
profile = "l40s-x4-llama-3.1-70b"
[[instances]]
name = "two"
pool = "p"
profile = "l40s-x4-llama-3.1-70b"
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "two"', 'name = "one"', "occurs twice"),
        (
            'profile = "l40s-x4-llama-3.1-70b"\n[[',
            'profile = "a6000-x4-llama-3.1-70b"\n[[',
            "mixes",
        ),
        ("Llama-3.1-70B", "Qwen3-30B-A3B", "serves"),
        ("[[instances]]", "[instances]", "TOML"),
        ('pool = "p"', "pool = 7", "pool"),
        ('pool = "p"', 'pool = "p"\nurl = "x"', "url"),
        ('name = "mine"', "", "name"),
    ],
)
def test_a_wrong_cluster_file_is_explained(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(CLUSTER)
    assert len(load_fleet(path).instances) == 2
    path.write_text(CLUSTER.replace(old, new, 1))
    with pytest.raises(InvalidProfile, match=message):
        load_fleet(path)


def test_a_cluster_without_instances_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "x"\nmodel = "m"\ninstances = []\n')
    with pytest.raises(InvalidProfile, match="no instances"):
        load_fleet(path)
    path.write_text('name = "x"\nmodel = "m"\ninstances = 3\n')
    with pytest.raises(InvalidProfile, match="list of tables"):
        load_fleet(path)


def test_wrong_prices_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text("[gpu_hour]\nA6000 = 0\n")
    with pytest.raises(InvalidProfile, match="A6000"):
        load_prices(path)
    path.write_text("")
    with pytest.raises(InvalidProfile, match="gpu_hour"):
        load_prices(path)
    with pytest.raises(InvalidProfile, match="cannot read"):
        load_prices(tmp_path / "absent.toml")
