"""`.ci/run` and `.ci/test-vllm`: what was not tested looks neither like success nor failure."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CI = Path(__file__).resolve().parents[3] / ".ci"
SUMMARY = "== 7 passed, 1 skipped in 3.21s =="


def _program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{script}\n")
    path.chmod(0o755)


def _run(root: Path, script: str) -> tuple[int, list[str]]:
    """Exit code and the lines of standard output of a CI script in a project that is not ours."""
    shutil.copy(CI / script, root / ".ci" / script)
    done = subprocess.run(
        [str(root / ".ci" / script)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}"},
    )
    return done.returncode, done.stdout.strip().splitlines()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose programs do nothing."""
    (tmp_path / ".ci").mkdir()
    _program(tmp_path / ".ci" / "find-python", "echo python3")
    _program(tmp_path / "bin" / "make", f"echo '{SUMMARY}'")
    return tmp_path


def _python(project: Path, environment: int = 0, models: int = 0, tests: int = 0) -> None:
    """The project's Python, which ends like this for each of its programs."""
    _program(
        project / ".venv" / "bin" / "python",
        f"""case "$*" in
            *environment*) echo "error: no package index" >&2; exit {environment} ;;
            *models*) exit {models} ;;
            *pytest*) echo '{SUMMARY}'; exit {tests} ;;
        esac""",
    )


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ({}, 0),
        ({"tests": 1}, 1),
        ({"tests": 5}, 5),
        ({"environment": 75}, 75),
        ({"environment": 2}, 75),
        ({"models": 75}, 75),
        ({"tests": 75}, 75),
    ],
)
def test_only_tests_can_fail(project: Path, codes: dict[str, int], expected: int) -> None:
    _python(project, **codes)
    code, lines = _run(project, "test-vllm")
    assert code == expected
    assert lines[-1].startswith("not tested: ") == (expected == 75)


def test_what_failed_is_tried_once_more_and_said_to_be(project: Path) -> None:
    _program(
        project / ".venv" / "bin" / "python",
        f"""case "$*" in
            *last-failed*) echo '{SUMMARY}'; exit 0 ;;
            *pytest*) echo '1 failed, 6 passed in 3.21s'; exit 1 ;;
        esac""",
    )
    code, lines = _run(project, "test-vllm")
    assert code == 0
    assert lines == ["1 failed, 6 passed in 3.21s", "second try, of what failed:", SUMMARY]


def test_the_reason_is_in_the_last_line(project: Path) -> None:
    _python(project, environment=75)
    _, lines = _run(project, "test-vllm")
    assert lines[-1] == "not tested: no package index (making its environment ended with 75)"


@pytest.mark.parametrize(
    ("vllm", "code", "said"),
    [
        (f"echo '{SUMMARY}'; exit 0", 0, f"real vLLM: tested: {SUMMARY}"),
        (
            f"echo 'second try, of what failed:'; echo '{SUMMARY}'",
            0,
            f"real vLLM: tested, second try, of what failed: {SUMMARY}",
        ),
        ("echo 'not tested: no net'; exit 75", 0, "real vLLM: NOT TESTED, because no net"),
        (f"echo '{SUMMARY}'; exit 1", 1, f"real vLLM: FAILED with 1: {SUMMARY}"),
    ],
)
def test_the_run_says_what_became_of_vllm(project: Path, vllm: str, code: int, said: str) -> None:
    _program(project / ".ci" / "test-vllm", vllm)
    ended, lines = _run(project, "run")
    assert ended == code
    assert lines[-2:] == [said, SUMMARY]


def test_failed_tests_are_not_followed_by_others(project: Path) -> None:
    _program(project / "bin" / "make", f"echo '{SUMMARY}'; exit 2")
    _program(project / ".ci" / "test-vllm", "echo never")
    code, lines = _run(project, "run")
    assert code == 2
    assert lines[-2:] == ["real vLLM: NOT TESTED, because make test failed", SUMMARY]
