"""The demo: a cluster of its own, all questions at once, a report, nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hexgen_celery import cli
from workers.embedded_redis import free_port

pytestmark = pytest.mark.integration
RUN_SECONDS = 200
HEXGEN = [sys.executable, "-c", "import sys; from hexgen_celery.cli import main; sys.exit(main())"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server() -> Iterator[str]:
    """An emulated server standing in for somebody's own, with the model `house-model`."""
    port = str(free_port())
    command = [sys.executable, "-m", "workers.emulator", "--model", "house-model"]
    process = subprocess.Popen(
        [*command, "--constant-seconds", "0.01", "--port", port], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as output:
        url = output.readline().strip()
        yield url
    process.terminate()
    process.wait(10)


def test_all_questions_are_answered_and_reported(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["demo", "--json", "--speed", "10"]) == 0
    report = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert report["questions"] >= 30
    assert report["lost"] == 0
    assert report["answered"] >= 0.9 * report["questions"]
    assert set(report["attainment_by_class"]) == {"interactive", "relaxed"}
    assert "emulated" in report["servers"]
    assert "replayed" in report["servers"]
    assert report["p50_seconds"] <= report["p95_seconds"]
    results = report["results"]
    assert all(result["sql"] for result in results if result["status"] == "answered")
    assert not (here / ".hexgen" / "demo" / "cluster.json").exists()


def test_a_reader_sees_rows_sql_and_deadlines(here: Path) -> None:
    """Also where the environment points at a cluster of one's own: the demo leaves it alone."""
    done = subprocess.run(
        [*HEXGEN, "demo", "--speed", "10", "--questions", "4", "--relaxed-slo", "90"],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        env={
            **os.environ,
            "HEXGEN_LOG__LEVEL": "warning",
            "HEXGEN_BROKER__URL": "redis://127.0.0.1:1/0",
        },
    )
    assert done.returncode == 0, done.stderr
    assert "#1  interactive 8 s, answered, deadline met" in done.stdout
    assert "#2  relaxed 90 s, answered, deadline met" in done.stdout
    assert "SELECT" in done.stdout
    assert "4 of 4 answered" in done.stdout
    assert "SLO attainment 100.0% (interactive 100.0%, relaxed 100.0%)" in done.stdout
    assert "P95" in done.stdout


def test_too_few_answers_fail_the_run(
    here: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that writes no SQL at all: every question ends, none is answered."""
    assert cli.main(["demo", "--json", "--questions", "3", "--llm-url", server]) == 1
    report = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert (report["questions"], report["answered"], report["lost"]) == (3, 0, 0)
    assert report["model"] == "house-model"
    assert report["servers"].startswith(
        f"Answered by an emulated server at {server} under the name"
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--llm-url", "http://127.0.0.1:1/v1", "--model", "m"], "http://127.0.0.1:1"),
        (["--model", "m"], "a model is named but no server"),
        (["--llm-url", "not a url"], "not a url"),
        (["--engine", "vllm-cpu", "--model", "m"], "brings its own server and model"),
    ],
)
def test_a_wrong_server_is_a_clear_error(
    here: Path, capsys: pytest.CaptureFixture[str], options: list[str], problem: str
) -> None:
    assert cli.main(["demo", *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert problem in error


def test_a_model_the_server_lacks_is_a_clear_error(
    here: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["demo", "--llm-url", server, "--model", "other"]) == 2
    error = capsys.readouterr().err
    assert "other" in error
    assert "house-model" in error
