"""A program that is kept running: restarts with growing waits, a clean end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hexgen_celery.core.clock import ManualClock
from workers.managed_process import ManagedProcess, ProcessSpec, RestartPolicy

pytestmark = pytest.mark.integration


def _python(program: str) -> ProcessSpec:
    return ProcessSpec("program", (sys.executable, "-c", program), dict(os.environ))


def _until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.01)


def _dead(process: ManagedProcess) -> bool:
    return process.pid is None


def test_waits_double_up_to_the_longest() -> None:
    policy = RestartPolicy(first_seconds=0.5, longest_seconds=3.0)
    assert [policy.wait_seconds(deaths) for deaths in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_a_dead_program_is_started_again_after_its_wait(tmp_path: Path) -> None:
    clock = ManualClock()
    log = tmp_path / "program.log"
    process = ManagedProcess(_python("print('ran')"), log, clock, RestartPolicy(2.0, 8.0))
    process.start()
    _until(lambda: _dead(process))
    process.poll()
    clock.advance(1.9)
    process.poll()
    assert process.restarts == 0
    clock.advance(0.2)
    process.poll()
    assert process.restarts == 1
    _until(lambda: _dead(process))
    process.poll()
    clock.advance(3.9)
    process.poll()
    assert process.restarts == 1, "the second wait is twice the first"
    clock.advance(0.2)
    process.poll()
    assert process.restarts == 2
    _until(lambda: _dead(process))
    process.end(1.0)
    assert log.read_text().count("ran") == 3


def test_deaths_are_counted_and_the_end_of_the_log_can_be_quoted(tmp_path: Path) -> None:
    clock = ManualClock()
    program = _python("print('one\\n\\ntwo\\nthree')")
    process = ManagedProcess(program, tmp_path / "log", clock, RestartPolicy(1.0, 1.0))
    for deaths in (1, 2):
        process.start()
        _until(lambda: _dead(process))
        process.poll()
        assert process.deaths_in_a_row == deaths
    assert process.last_lines(2) == ["two", "three"]
    process.end(1.0)


def test_a_long_run_starts_the_waits_over(tmp_path: Path) -> None:
    clock = ManualClock()
    policy = RestartPolicy(1.0, 8.0, settled_seconds=30.0)
    process = ManagedProcess(_python("pass"), tmp_path / "log", clock, policy)
    process.start()
    for ran in (0.0, 0.0, 31.0):
        _until(lambda: _dead(process))
        clock.advance(ran)
        process.poll()
        wait = 1.0 if ran else policy.wait_seconds(process.restarts + 1)
        clock.advance(wait + 0.01)
        process.poll()
    assert process.restarts == 3
    process.end(5.0)


def test_end_takes_the_whole_group(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    log = tmp_path / "log"
    process = ManagedProcess(_python(program), log, ManualClock())
    process.start()
    _until(lambda: log.exists() and log.read_text().strip().isdigit())
    grandchild = int(log.read_text())
    process.ask_to_stop()
    process.end(5.0)
    assert process.pid is None
    _until(lambda: not _runs(grandchild))


def test_stopping_forbids_the_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    process = ManagedProcess(_python("pass"), tmp_path / "log", clock)
    process.start()
    _until(lambda: _dead(process))
    process.poll()
    process.ask_to_stop()
    process.end(1.0)
    clock.advance(100.0)
    process.poll()
    assert process.restarts == 0


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
