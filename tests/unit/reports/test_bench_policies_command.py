"""`hexgen bench policies` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hexgen_celery.cli import bench_policies
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


def test_quick_writes_both_pages_and_raw_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = {"step": "s", "input_tokens": 500, "output_tokens": 50}
    workloads = tmp_path / "data" / "workloads"
    workloads.mkdir(parents=True)
    (workloads / "tiny.jsonl").write_text(json.dumps({"requests": [request]}) + "\n")
    monkeypatch.setattr(bench_policies, "quick_matrix", tiny_matrix)
    monkeypatch.setenv("HEXGEN_DATA", str(tmp_path / "data"))
    output = tmp_path / "out"
    arguments = ["--quick", "--output", str(output), "--processes", "1"]
    result = CliRunner().invoke(
        bench_policies.bench_policies_command, arguments, catch_exceptions=False
    )
    assert result.exit_code == 0
    assert (output / "policies.md").is_file()
    assert (output / "policies.html").is_file()
    raw = [path for path in output.glob("raw-*/*.json") if not path.name.startswith("place-")]
    assert len(raw) == 3
    assert len(json.loads(raw[0].read_text())["latencies"]) == 30
