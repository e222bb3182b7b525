"""Policies of one's own, in modules that the configuration names."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hexgen_celery import named_modules
from hexgen_celery.cli.root import hexgen
from hexgen_celery.core.admission import build_admission
from hexgen_celery.core.dispatch import DISPATCH, build_dispatch
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.named_modules import register_policies
from hexgen_celery.parallel import map_unordered
from hexgen_celery.settings import AdmissionSettings, RouterSettings, load_settings

POLICY = """
from hexgen_celery.core.dispatch.base import DISPATCH, ready_instances, to_instance

@DISPATCH.register("{name}")
class Last:
    name = "{name}"

    def __init__(self, parameters, rng):
        pass

    def choose(self, request, cluster):
        return to_instance(ready_instances(cluster)[-1], 0.0)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(named_modules, "_registered", [])
    return tmp_path


def policy_module(here: Path, module: str, policy: str) -> Path:
    """A module in the working directory, and a configuration that names it."""
    (here / f"{module}.py").write_text(POLICY.format(name=policy))
    path = here / "hexgen.toml"
    path.write_text(f'policy_modules = ["{module}"]\n')
    return path


def summary_of(name: str) -> str:
    return DISPATCH.entry(name).name


def test_whoever_reads_the_configuration_knows_its_policies(here: Path) -> None:
    load_settings(policy_module(here, "own_policy_one", "one"))
    assert DISPATCH.entry("one").name == "one"
    load_settings()


def test_processes_that_simulate_know_them_too(here: Path) -> None:
    load_settings(policy_module(here, "own_policy_two", "two"))
    assert list(map_unordered(summary_of, ["two"], processes=2)) == [("two", "two")]


def test_a_simulation_runs_under_them(here: Path) -> None:
    policy_module(here, "own_policy_three", "three")
    request = {"step": "s", "input_tokens": 500, "output_tokens": 50}
    (here / "tiny.jsonl").write_text(json.dumps({"requests": [request]}) + "\n")
    arguments = "simulate tiny.jsonl --rate 1 --cluster het-30b --questions 20 --warmup 0 --json"
    result = CliRunner().invoke(hexgen, [*arguments.split(), "--dispatch", "three"])
    assert result.exit_code == 0, result.output
    busy = {
        name: share for name, share in json.loads(result.output)["utilisation"].items() if share > 0
    }
    assert list(busy) == ["a6000-30b"]


def test_what_cannot_be_used_is_named(here: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"policy_modules: 'nowhere\.at_all'"):
        register_policies(["nowhere.at_all"])
    (here / "taken_name.py").write_text(POLICY.format(name="alpha"))
    with pytest.raises(InvalidSettings, match="'alpha' is registered twice"):
        register_policies(["taken_name"])


def test_whole_numbers_in_the_configuration_are_whole_numbers_of_a_policy() -> None:
    admission = AdmissionSettings(policy="fixed-slots", parameters={"slots": 16})
    assert build_admission(admission.policy, **admission.parameters)
    router = RouterSettings(dispatch="prefix-affinity", parameters={"imbalance": 3})
    assert build_dispatch(router.dispatch, random.Random(0), **router.parameters)
