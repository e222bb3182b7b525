"""`hexgen bird run`: replayed predictions through the whole system, scored by EX."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from hexgen_celery import cli
from hexgen_celery.cli.cluster_file import HETEROGENEOUS, emulated_cluster
from hexgen_celery.demo import DemoFiles, build_demo

pytestmark = pytest.mark.integration
LIMIT = 6


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoFiles:
    """The demo in BIRD's layout; the working directory is empty."""
    monkeypatch.chdir(tmp_path)
    return build_demo(tmp_path / "data")


def _write_predictions(demo: DemoFiles, directory: Path) -> Path:
    """Two models that are right and one whose SQL never runs; the last question in none of them."""
    directory.mkdir()
    covered = demo.questions[: LIMIT - 1]
    right = {str(each.question_id): each.gold for each in covered}
    wrong = {str(each.question_id): "SELECT * FROM nowhere" for each in covered}
    for name, predictions in (("one", right), ("two", right), ("three", wrong)):
        (directory / f"{name}.json").write_text(json.dumps(predictions))
    return directory


def _last_line(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    return report


def test_replayed_predictions_are_scored_and_said_to_be_replayed(
    demo: DemoFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predictions = _write_predictions(demo, tmp_path / "predictions")
    arguments = ["bird", "run", str(demo.directory), "--replay", str(predictions)]
    assert cli.main([*arguments, "--limit", str(LIMIT), "--json"]) == 0
    report = _last_line(capsys)
    assert (report["questions"], report["answered"], report["uncovered"]) == (
        LIMIT - 1,
        LIMIT - 1,
        1,
    )
    assert report["ex"] == 1.0
    assert report["by_difficulty"]["simple"]["questions"] == LIMIT - 1
    assert set(report["replayed_stages"]) >= {"candidate_generation", "evaluation"}
    assert report["emulated"] is True
    assert "not the score of a model" in report["note"]


def test_a_reader_sees_ex_by_difficulty_and_where_answers_came_from(
    demo: DemoFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predictions = _write_predictions(demo, tmp_path / "predictions")
    arguments = ["bird", "run", str(demo.directory), "--replay", str(predictions), "--limit", "2"]
    assert cli.main(arguments) == 0
    shown = capsys.readouterr().out
    assert "EX" in shown
    assert "simple" in shown
    assert "published predictions" in shown
    assert "not the score of a model" in shown


def test_emulated_servers_are_named_without_replay_too_and_a_missing_plotter_is_a_hint(
    demo: DemoFiles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    config, out = tmp_path / "hexgen.toml", tmp_path / "run"
    one = HETEROGENEOUS[:1]
    text = emulated_cluster(tmp_path / "up", replay=[demo.replay], speed=50, kinds=one)
    config.write_text(text)
    arguments = ["--config", str(config), "bird", "run", str(demo.directory), "--limit", "1"]
    for _ in ("asked", "taken up when all is answered"):
        assert cli.main([*arguments, "--out", str(out)]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "Answered by emulated servers (a100-1)" in shown
        assert "not the score of a model" in shown
        assert shown.count("pip install") == 1
    assert json.loads((out / "summary.json").read_text())["emulated"] is True


def test_a_run_is_kept_and_continued_where_it_broke_off(
    demo: DemoFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predictions = _write_predictions(demo, tmp_path / "predictions")
    out = tmp_path / "run"
    arguments = ["bird", "run", str(demo.directory), "--replay", str(predictions), "--json"]
    arguments += ["--limit", "3", "--out", str(out), "--parallel", "2", "--agreement", "2"]
    assert cli.main(arguments) == 0
    first = _last_line(capsys)
    assert first["directory"] == str(out)
    assert first["decided_by"] == {"early_agreement": 3}
    assert (out / "report.md").read_text().startswith("# BIRD run")
    assert "<svg" in (out / "report.html").read_text()
    manifest = json.loads((out / "run.json").read_text())
    assert set(manifest["prompts"]) == {"link", "candidate", "revise", "unit_tests", "choose"}
    traces = (out / "traces.jsonl").read_text().splitlines()
    assert len(traces) == 3
    (out / "traces.jsonl").write_text("\n".join(traces[:2]) + "\n" + traces[2][:40])
    assert cli.main(arguments) == 0
    again = _last_line(capsys)
    assert (again["questions"], again["ex"]) == (3, first["ex"])
    kept = (out / "traces.jsonl").read_text().splitlines()
    assert kept[:2] == traces[:2]
    assert len(kept) == 3
    assert cli.main([*arguments, "--candidates", "2"]) == 2
    assert "other pipeline" in capsys.readouterr().err


def test_spider_questions_run_too(
    demo: DemoFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spider = tmp_path / "spider"
    name, source = demo.database.stem, demo.database
    target = spider / "database" / name / f"{name}.sqlite"
    target.parent.mkdir(parents=True)
    shutil.copy(source, target)
    items = [
        {"db_id": name, "question": each.question, "query": each.gold}
        for each in demo.questions[:2]
    ]
    (spider / "dev.json").write_text(json.dumps(items))
    predictions = tmp_path / "predictions.json"
    predictions.write_text(json.dumps({"0": items[0]["query"], "1": "SELECT 1"}))
    arguments = ["spider", "run", str(spider), "--replay", str(predictions), "--json"]
    assert cli.main([*arguments, "--timings", "1"]) == 0
    report = _last_line(capsys)
    assert (report["questions"], report["correct"]) == (2, 1)
    assert report["run"]["benchmark"] == "spider"
    assert 0 < report["r_ves"] <= 100


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--db", "absent"], "has no question about 'absent'"),
        ([], "nobody can answer"),
        (["--replay", "dev.json"], "no prediction"),
    ],
)
def test_mistakes_are_clear(
    demo: DemoFiles,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    problem: str,
) -> None:
    Path("dev.json").write_text('{"9999": "SELECT 1"}')
    assert cli.main(["bird", "run", str(demo.directory), *arguments]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.data
def test_real_bird_questions_with_published_predictions(
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With three published models' answers, most questions of superhero come out right."""
    monkeypatch.chdir(tmp_path)
    bird = shared_data / "bird" / "dev"
    arguments = ["bird", "run", str(bird), "--db", "superhero", "--limit", "30"]
    assert cli.main([*arguments, "--replay", str(bird / "predictions"), "--json"]) == 0
    report = _last_line(capsys)
    assert (report["questions"], report["answered"]) == (30, 30)
    assert 0.6 <= report["ex"] <= 1.0
    assert sum(tally["questions"] for tally in report["by_difficulty"].values()) == 30
