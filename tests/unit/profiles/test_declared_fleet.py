"""The fleet of a deployment's own configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from hexgen_celery.declared_fleet import read_fleet
from hexgen_celery.errors import InvalidProfile, InvalidSettings

POOLS = """
[emulator]
speed = 2.0

[[pools]]
name = "qwen"
gpu = "a100"
model = "served-name"
profile = "a100-80g-x1-qwen3-30b-a3b"
instances = [{ name = "a1", engine = "emulated" }, { name = "a2", url = "http://h:1" }]

[[pools]]
name = "qwen"
gpu = "l40s"
model = "served-name"
profile = "l40s-x1-qwen3-30b-a3b"
instances = [{ name = "l1", engine = "emulated" }]

[[pools]]
name = "other"
gpu = "l40s"
model = "another"
profile = "l40s-x4-llama-3.1-70b"
instances = [{ name = "o1", engine = "emulated" }]
"""


def configuration(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_a_configuration_is_a_cluster_of_the_model_that_most_instances_serve(
    tmp_path: Path,
) -> None:
    fleet = read_fleet(configuration(tmp_path, POOLS))
    assert (fleet.name, fleet.model) == ("mine", "served-name")
    assert [(one.name, one.pool) for one in fleet.instances] == [
        ("a1", "gpu.a100.qwen"),
        ("a2", "gpu.a100.qwen"),
        ("l1", "gpu.l40s.qwen"),
    ]
    assert fleet.instances[2].profile.gpu == "L40S"


def test_cluster_files_and_shipped_names_are_read_as_ever() -> None:
    assert read_fleet("het-30b").name == "het-30b"
    with pytest.raises(InvalidProfile, match="no cluster 'nowhere'"):
        read_fleet("nowhere")


def test_a_wrong_configuration_is_told_as_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="gpus"):
        read_fleet(configuration(tmp_path, POOLS.replace("gpu =", "gpus =", 1)))
    with pytest.raises(InvalidProfile, match="no profile 'h900'"):
        read_fleet(configuration(tmp_path, POOLS.replace("l40s-x1-qwen3-30b-a3b", "h900")))
    with pytest.raises(InvalidProfile, match="declares no pool"):
        read_fleet(configuration(tmp_path, "pools = []"))
    empty = '[[pools]]\nname = "x"\ngpu = "a"\nmodel = "m"\nprofile = "p"\n'
    with pytest.raises(InvalidProfile, match="declares no instance"):
        read_fleet(configuration(tmp_path, empty))
    again = POOLS.replace("[emulator]\nspeed = 2.0\n", "")
    with pytest.raises(InvalidSettings, match="declared twice"):
        read_fleet(configuration(tmp_path, 2 * again))
    renamed = again.replace('name = "other"\ngpu = "l40s"', 'name = "qwen"\ngpu = "l40s"')
    with pytest.raises(InvalidSettings, match="declared twice"):
        read_fleet(configuration(tmp_path, renamed))


def test_a_file_that_is_no_toml_is_told_as_a_cluster_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidProfile, match="is not TOML"):
        read_fleet(configuration(tmp_path, "pools = ["))
