"""Refreshing what is in use, behind those who use it."""

from __future__ import annotations

import threading
import time

import pytest
from structlog.testing import capture_logs

from hexgen_celery.background import BackgroundRefresh

PATIENCE = 10.0


def _until(event: threading.Event) -> None:
    assert event.wait(PATIENCE)


def test_nobody_waits_and_it_runs_once_at_a_time() -> None:
    began, go_on, runs = threading.Event(), threading.Event(), []

    def refresh() -> None:
        runs.append(1)
        began.set()
        _until(go_on)

    refreshing = BackgroundRefresh("test", refresh, seconds=0.0)
    refreshing.wanted()
    _until(began)
    for _ in range(5):
        refreshing.wanted()
    assert len(runs) == 1
    go_on.set()


def test_it_runs_at_most_once_in_so_many_seconds() -> None:
    ran = threading.Event()
    runs: list[int] = []

    def refresh() -> None:
        runs.append(1)
        ran.set()

    refreshing = BackgroundRefresh("test", refresh, seconds=3600.0)
    for _ in range(5):
        refreshing.wanted()
        _until(ran)
    assert len(runs) == 1


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_one_that_failed_is_logged_and_run_again() -> None:
    runs: list[int] = []

    def refresh() -> None:
        runs.append(1)
        raise RuntimeError("a bug")

    refreshing = BackgroundRefresh("test", refresh, seconds=0.0)
    until = time.monotonic() + PATIENCE
    with capture_logs() as logged:
        while len(runs) < 2:
            assert time.monotonic() < until
            refreshing.wanted()
            time.sleep(0.001)
        refreshing.close()
    assert logged[0]["refresh"] == "test"
    assert "a bug" in logged[0]["error"]


def test_closing_waits_for_what_runs_and_nothing_runs_afterwards() -> None:
    began, go_on, runs = threading.Event(), threading.Event(), []

    def refresh() -> None:
        began.set()
        _until(go_on)
        runs.append(1)

    refreshing = BackgroundRefresh("test", refresh, seconds=0.0)
    refreshing.wanted()
    _until(began)
    threading.Timer(0.1, go_on.set).start()
    refreshing.close()
    assert runs == [1]
    refreshing.wanted()
    refreshing.close()
    assert runs == [1]
