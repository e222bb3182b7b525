"""Every command of the command line on a running cluster."""

from __future__ import annotations

import json
import socket
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hexgen_celery import cli
from hexgen_celery.api import Pending
from hexgen_celery.cli.cluster_file import emulated_cluster, real_server_cluster
from hexgen_celery.health import checks
from hexgen_celery.live_tuning import TuningEntry, TuningStore
from hexgen_celery.redis_client import connect
from hexgen_celery.workloads import read_workload

from .conftest import RunningCluster, write_database

pytestmark = pytest.mark.integration


def test_batch_answers_every_line(cluster: RunningCluster, shown: Any, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    lines = [
        {"question": "Which cities?", "options": {"question_key": "cities:all"}},
        {"question": "Which?", "slo_seconds": 50, "options": {"question_key": "cities:all"}},
    ]
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
    assert cluster.hexgen("batch", str(file), "--db", "cities", "--slo", "60", "--json") == 0
    results = [json.loads(line) for line in shown.text.splitlines()]
    assert sorted(result["slo_seconds"] for result in results) == [50, 60]
    assert all(len(result["rows"]) == 3 for result in results)
    assert cluster.hexgen("batch", str(file), "--db", "cities") == 0
    assert "2 of 2 answered" in shown.text


def test_batch_says_which_line_failed(cluster: RunningCluster, shown: Any, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    line = {"question": "Which?", "options": {"question_key": "cities:broken"}}
    file.write_text(json.dumps(line))
    assert cluster.hexgen("batch", str(file), "--db", "cities", "--slo", "60") == 1
    text = shown.text
    assert "self_correction" in text
    assert "0 of 1 answered" in text


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "is not a JSON object"),
        ('{"question": "Which?", "databse": "cities"}', "databse"),
        ('{"database": "cities"}', "question"),
        ("[1]", "is not a JSON object"),
    ],
)
def test_batch_names_a_bad_line(
    cluster: RunningCluster, shown: Any, tmp_path: Path, line: str, problem: str
) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(f"\n{line}\n")
    assert cluster.hexgen("batch", str(file), "--db", "cities") == 2
    error = shown.error
    assert f"{file}:2" in error
    assert problem in error


def test_ask_shows_rows_sql_and_deadline(cluster: RunningCluster, shown: Any) -> None:
    arguments = ("ask", "Which cities?", "--db", "cities", "--slo", "60")
    key = ("-o", "question_key=cities:all")
    assert cluster.hexgen(*arguments, *key) == 0
    text = shown.text
    for part in ("Reykjavík", "SELECT name FROM city ORDER BY name", "deadline met", "why: "):
        assert part in text
    assert cluster.hexgen(*arguments, *key, "--json") == 0
    assert shown.json["rows"] == [["Nara"], ["Reykjavík"], ["Tokyo"]]


def test_ask_of_another_workflow_needs_no_database_and_shows_its_text(
    cluster: RunningCluster, shown: Any
) -> None:
    asked = ("ask", "Say something.", "--workflow", "chat", "--slo", "60", "-o", "max_tokens=20")
    assert cluster.hexgen(*asked) == 0
    text = shown.text
    assert "deadline met" in text
    assert "SELECT" not in text
    assert cluster.hexgen(*asked, "--json") == 0
    assert shown.json["text"]
    assert cluster.hexgen("ask", "Which?", "--db", "cities", "--workflow", "nobodys") == 1
    assert "nobodys" in shown.text


def test_ask_says_why_there_is_no_answer(cluster: RunningCluster, shown: Any) -> None:
    # Without a question key the emulated servers have no recorded answer, so the question fails.
    assert cluster.hexgen("ask", "Which cities?", "--db", "cities", "--slo", "60") == 1
    assert "failed in self_correction" in " ".join(shown.text.split())
    assert cluster.hexgen("ask", "Which?", "--db", "cities", "--slo", "60", "--json") == 1
    result = shown.json
    assert (result["status"], result["stage"]) == ("failed", "self_correction")


def test_ask_status_trace_cancel_by_id(cluster: RunningCluster, shown: Any, tmp_path: Path) -> None:
    arguments = ("ask", "Which cities?", "--db", "cities", "--slo", "60", "--no-wait", "--json")
    assert cluster.hexgen(*arguments, "-o", "candidates=2", "-o", "correction_rounds=0") == 0
    question_id = shown.json["id"]
    _wait_for_start(cluster, question_id)
    cluster.client.pending(question_id).outcome(timeout=60)
    assert cluster.hexgen("status", question_id, "--json") == 0
    status = shown.json
    assert (status["status"], status["slo_seconds"]) == ("failed", 60)
    stages = {node["stage"] for node in status["nodes"]}
    assert stages == {"schema_linking", "execute_sql", "candidate_generation"}
    assert cluster.hexgen("trace", question_id, "--json") == 0
    events = shown.json
    assert events[0]["event"] == "started"
    assert events[-1]["event"] == "finished"
    assert cluster.hexgen("trace", "--events", question_id) == 0
    assert "first_token" in shown.text
    page = tmp_path / "page.html"
    assert cluster.hexgen("trace", question_id, "--html", str(page)) == 0
    assert question_id in page.read_text()
    for command in ("status", "trace"):
        assert cluster.hexgen(command, question_id) == 0
        assert "candidate_generation" in shown.text
    assert cluster.hexgen("cancel", question_id) == 0
    assert "had ended already" in shown.text


def test_answered_questions_are_exported_as_a_workload(
    cluster: RunningCluster, shown: Any, tmp_path: Path
) -> None:
    options = {"question_key": "cities:all"}
    cluster.client.ask("Which cities?", "cities", 60, options=options).result(60)
    path = tmp_path / "recorded.jsonl"
    assert cluster.hexgen("trace", "export", "--output", str(path), "--limit", "1") == 0
    (question,) = read_workload(path).questions
    assert (question.question, question.database) == ("cities:all", "cities")
    assert question.requests[-1].times.end is not None
    assert cluster.hexgen("trace", "export", "--limit", "1") == 0
    assert shown.json["question"] == "cities:all"


def test_the_tuners_decisions_are_shown(cluster: RunningCluster, shown: Any) -> None:
    moved = TuningEntry(
        at=1e9,
        objective="p95",
        questions=100,
        rate=2.0,
        chosen={"dispatch": "alpha", "alpha": 0.4},
        incumbent={"dispatch": "alpha", "alpha": 0.2},
        moved=True,
        reverted=False,
        predicted=3.5,
        measured=4.5,
        gain=0.2,
        confidence=0.95,
        review={"error": -0.125},
    )
    with connect(cluster.client.settings) as redis:
        store = TuningStore(redis, cluster.client.keys)
        store.add(moved)
        store.add(replace(moved, predicted=float("inf"), review={"error": float("inf")}))
    assert cluster.hexgen("tune", "--history") == 0
    text = shown.text
    assert "moved" in text
    assert "-12%" in text
    assert "+inf%" in text
    assert cluster.hexgen("tune", "--history", "--json") == 0
    newest = shown.json[0]
    assert newest["chosen"]["alpha"] == 0.4
    assert newest["predicted"] is None


def test_status_without_id_lists_what_runs(cluster: RunningCluster, shown: Any) -> None:
    options = {"question_key": "cities:slow", "max_tokens": 25_000}
    pending = cluster.client.ask("Slow one?", "cities", 600, options=options)
    _wait_for_start(cluster, pending.id)
    assert cluster.hexgen("status", "--json") == 0
    status = shown.json
    assert pending.id in [running["id"] for running in status["running"]]
    assert {"tenant", "slo_class", "attainment"} <= set(status["tenants"][0])
    assert cluster.hexgen("status") == 0
    assert "Slow one?" in shown.text
    assert cluster.hexgen("cancel", pending.id) == 0
    assert "cancelled" in shown.text


def test_queues(cluster: RunningCluster, shown: Any) -> None:
    assert cluster.hexgen("queues", "--json") == 0
    names = [queue["name"] for queue in shown.json]
    assert names[0] == "hexgen.ask"
    assert "gpu.a6000.demo" in names
    assert cluster.hexgen("queues") == 0
    assert "a6000-1" in shown.text


def test_databases_are_added_listed_shown_and_removed(cluster: RunningCluster, shown: Any) -> None:
    assert cluster.hexgen("db", "add", str(cluster.database), "--name", "again") == 0
    assert "again: 2 tables, 5 rows" in shown.text
    assert cluster.hexgen("db", "list", "--json") == 0
    assert {"again", "cities"} <= {entry["name"] for entry in shown.json}
    assert cluster.hexgen("db", "list") == 0
    assert "again" in shown.text
    assert cluster.hexgen("db", "show", "again") == 0
    text = shown.text
    assert "city (3 rows)" in text
    assert "→ country" in text
    assert cluster.hexgen("db", "show", "again", "--prompt") == 0
    assert "CREATE TABLE" in shown.text
    assert cluster.hexgen("db", "remove", "again") == 0
    assert cluster.hexgen("db", "show", "again") == 2
    assert "no database is called 'again'" in shown.error


def test_doctor_finds_a_healthy_cluster(cluster: RunningCluster, shown: Any) -> None:
    assert cluster.hexgen("doctor", "--json") == 0
    checks = {check["name"]: check for check in shown.json}
    assert all(check["verdict"] == "ok" for check in checks.values()), checks
    assert "emulated" in checks["instance a100-1"]["detail"]
    assert {"broker", "clock", "control workers", "database cities"} <= set(checks)
    assert " at redis://" in checks["broker"]["detail"]
    assert cluster.hexgen("doctor") == 0
    assert "✓ llm workers" in shown.text


def test_doctor_finds_a_database_that_is_one_no_more(
    cluster: RunningCluster, shown: Any, tmp_path: Path
) -> None:
    file = write_database(tmp_path / "spoilt.sqlite")
    assert cluster.hexgen("db", "add", str(file)) == 0
    try:
        file.write_text("something else")
        assert shown.text
        cluster.hexgen("doctor")
        assert f"database spoilt: {file} is no SQLite database any more" in shown.text
        file.unlink()
        assert cluster.hexgen("doctor") == 1
        assert f"✗ database spoilt: no file here at {file} (sql-" in shown.text
    finally:
        cluster.hexgen("db", "remove", "spoilt")


def test_doctor_tells_declared_servers_that_do_not_run(
    monkeypatch: pytest.MonkeyPatch, shown: Any, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hexgen.toml").write_text(emulated_cluster(tmp_path / "up", replay=[], speed=1))
    assert cli.main(["doctor"]) == 1
    assert "✗ instances: a100-1, l40s-1, a6000-1 not running" in shown.text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("ask", "Which?", "--db", "citis"), "unknown database 'citis'"),
        (("ask", "", "--db", "cities"), "question is empty"),
        (("ask", "Which?"), "database is empty"),
        (("ask", "Which?", "--db", "cities", "--slo", "0"), "slo_seconds"),
        (("ask", "Which?", "--db", "cities", "-o", "candidates=99"), "candidates"),
        (("ask", "Which?", "--db", "cities", "-o", "candidates"), "is no option"),
        (("status", "nobody"), "no question 'nobody' is known"),
        (("trace", "nobody"), "no question 'nobody' is known"),
        (("cancel", "nobody"), "no question 'nobody' is known"),
        (("db", "add", "/does/not/exist"), "/does/not/exist"),
        (("worker", "llm", "--instance", "nobody"), "no instance 'nobody' is declared"),
    ],
)
def test_mistakes_are_one_clear_line(
    cluster: RunningCluster, shown: Any, arguments: tuple[str, ...], problem: str
) -> None:
    assert cluster.hexgen(*arguments) == 2
    error = shown.error
    assert error.startswith("error: ")
    assert problem in error
    assert len(error.strip().splitlines()) == 1


def _wait_for_start(cluster: RunningCluster, question_id: str) -> None:
    until = time.monotonic() + 20
    while cluster.hexgen("status", question_id) != 0:
        assert time.monotonic() < until, "never accepted"
        time.sleep(0.05)


def test_an_interrupted_ask_says_that_its_question_goes_on(
    cluster: RunningCluster, shown: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Pending, "outcome", interrupted)
    arguments = ("ask", "Which?", "--db", "cities", "-o", "question_key=cities:all")
    assert cluster.hexgen(*arguments) == 130
    assert "goes on; stop it with: hexgen cancel " in shown.error


def test_doctor_gives_up_a_server_that_never_answers(
    monkeypatch: pytest.MonkeyPatch, shown: Any, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checks, "SERVER_SECONDS", 0.3)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        Path("hexgen.toml").write_text(real_server_cluster(tmp_path / "up", url=url, model="m"))
        assert cli.main(["doctor"]) == 1
    assert f"✗ instance server-1: {url}/v1/models gave no answer within 0.3 s" in shown.text
