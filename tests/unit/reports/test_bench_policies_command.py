"""`hexgen bench policies` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hexgen_celery.cli import bench_policies
from hexgen_celery.cli.root import hexgen
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.reports.scenarios import (
    DEFAULT,
    LEAST_OUTSTANDING,
    ROUND_ROBIN,
    Length,
    Matrix,
    Scenario,
    Section,
)


def tiny_matrix() -> Matrix:
    scenario = Scenario("tiny", "tiny", "het-30b", 1, 0.5)
    variants = (DEFAULT, ROUND_ROBIN, LEAST_OUTSTANDING)
    return Matrix((Section("main", "Main", (scenario,), variants, 1),), (), (), 0, Length(30, 5))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one tiny workload, which the quick comparison takes."""
    request = {"step": "s", "input_tokens": 500, "output_tokens": 50}
    workloads = tmp_path / "data" / "workloads"
    workloads.mkdir(parents=True)
    (workloads / "tiny.jsonl").write_text(json.dumps({"requests": [request]}) + "\n")
    monkeypatch.setattr(bench_policies, "quick_matrix", tiny_matrix)
    monkeypatch.setenv("HEXGEN_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compare(output: Path, *more: str) -> Result:
    arguments = ["bench", "policies", "--quick", "--output", str(output), "--processes", "1"]
    return CliRunner().invoke(hexgen, [*arguments, *more])


def raw_results(output: Path) -> list[Path]:
    return [path for path in output.glob("raw-*/*.json") if not path.name.startswith("place-")]


def test_quick_writes_both_pages_and_raw_results(data: Path) -> None:
    output = data / "out"
    assert compare(output).exit_code == 0
    assert (output / "policies.md").is_file()
    assert (output / "policies.html").is_file()
    raw = raw_results(output)
    assert len(raw) == 3
    assert len(json.loads(raw[0].read_text())["latencies"]) == 30


def test_others_are_compared_too_and_those_that_are_there_once(data: Path) -> None:
    output = data / "out"
    result = compare(output, "--also", "fastest", "--also", "round-robin+fcfs")
    assert result.exit_code == 0, result.output
    assert len(raw_results(output)) == 4
    assert "fastest + latest-start" in (output / "policies.md").read_text()


@pytest.mark.parametrize("wrong", ["clairvoyant", "fastest+lifo"])
def test_a_policy_that_nobody_registered_is_told(data: Path, wrong: str) -> None:
    result = compare(data / "out", "--also", wrong)
    assert isinstance(result.exception, InvalidSettings)
    assert "policy_modules" in result.exception.hint
