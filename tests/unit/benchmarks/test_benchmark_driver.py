"""The benchmark driver: what it finds, records and calls missed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.benchmarks import ledger, run
from tests.benchmarks.rows import measured, meets_bar, problem_of


def _module(directory: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    package = directory / "tests" / "benchmarks"
    package.mkdir(parents=True, exist_ok=True)
    (package / f"{name}.py").write_text(text)
    monkeypatch.setattr("tests.benchmarks.__path__", [str(package)])


def _results(
    directory: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> run.AreaResult:
    monkeypatch.chdir(directory)
    _module(directory, monkeypatch, name, text)
    area = name.split("_")[1]
    return run.run_all([run.Benchmark(area, name)], Console(quiet=True))[area]


def test_a_row_is_the_median_with_its_range() -> None:
    row = measured("e2e.x", [3.0, 1.0, 2.0], "s", bar=2.5, source="demo")
    assert (row["value"], row["spread"], row["runs"]) == (2.0, [1.0, 3.0], 3)
    assert row["source"] == "demo"
    assert problem_of(row) == ""


@pytest.mark.parametrize(
    ("value", "bar", "higher", "met"),
    [(1, 2, False, True), (3, 2, False, False), (3, 2, True, True), (1, 2, True, False)],
)
def test_bars_are_limits_in_the_direction_of_better(
    value: float, bar: float, higher: bool, met: bool
) -> None:
    better = "higher" if higher else "lower"
    assert meets_bar({"value": value, "bar": bar, "better": better}) is met


def test_without_a_bar_nothing_is_missed() -> None:
    assert meets_bar(measured("e2e.x", [1], "s")) is None


@pytest.mark.parametrize("row", [None, {}, measured("x", [1], "s") | {"better": "sideways"}])
def test_what_is_no_row_is_told(row: object) -> None:
    assert problem_of(row)


def test_benchmarks_are_found_by_area_and_name(tmp_path: Path) -> None:
    for name in ("bench_e2e_one", "bench_e2e_two", "bench_sim_three", "bench_helper", "other"):
        (tmp_path / f"{name}.py").write_text("")
    found = run.discover(tmp_path)
    assert [(each.area, each.module) for each in found] == [
        ("e2e", "bench_e2e_one"),
        ("e2e", "bench_e2e_two"),
        ("sim", "bench_sim_three"),
    ]
    assert [each.module for each in run.choose(found, "sim, e2e", "t")] == [
        "bench_e2e_two",
        "bench_sim_three",
    ]


def test_areas_that_are_not_run_again_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    ledger.record([measured("e2e.a", [1], "s"), measured("e2e.b", [1], "s")], path)
    ledger.record([measured("sim.a", [5], "s")], path)
    ledger.record([measured("e2e.a", [2], "s")], path)
    rows = json.loads(path.read_text())
    values = {row["name"]: row["value"] for row in rows}
    assert values == {"e2e.a": 2, "e2e.b": 1, "sim.a": 5}
    assert {"cores", "memory_gib", "python"} <= rows[-1]["machine"].keys()


def test_a_module_that_crashes_or_is_skipped_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crashed = _results(tmp_path, monkeypatch, "bench_x_crash", "def run(): raise ValueError(1)")
    assert crashed.crashed
    skip = "from tests.benchmarks.rows import BenchmarkSkipped\n"
    skipped = _results(
        tmp_path, monkeypatch, "bench_y_skip", f"{skip}def run(): raise BenchmarkSkipped('no GPU')"
    )
    assert not skipped.crashed
    assert skipped.problems == ["bench_y_skip skipped: no GPU"]


def test_rows_are_recorded_and_shown_with_their_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "from tests.benchmarks.rows import measured\n"
        "def run(): return [measured('z.slow', [9.0], 's', bar=1), {'name': 'z.broken'}]"
    )
    result = _results(tmp_path, monkeypatch, "bench_z_rows", text)
    assert [row["name"] for row in result.rows] == ["z.slow"]
    assert result.crashed
    assert ledger.read()[0]["value"] == 9.0
    console = Console(width=200, record=True, quiet=False, file=(tmp_path / "out").open("w"))
    console.print(run.table({"z": result}))
    assert "MISSED" in console.export_text()


def test_an_unknown_area_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--area", "nowhere"]) == 1
    assert "e2e" in capsys.readouterr().out
