"""What is done again and again must outlive its own failures."""

from __future__ import annotations

import threading

import pytest
import redis

from workers.periodic import Periodic

PATIENCE = 10.0


@pytest.mark.parametrize("error", [redis.ConnectionError("gone"), RuntimeError("a bug")])
def test_a_call_that_fails_is_followed_by_the_next(error: Exception) -> None:
    calls: list[int] = []
    enough = threading.Event()

    def fail() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            enough.set()
        raise error

    periodic = Periodic("test", fail, 0.001)
    periodic.start()
    assert enough.wait(PATIENCE)
    periodic.stop()


def test_nothing_is_called_after_the_stop() -> None:
    calls: list[int] = []
    periodic = Periodic("test", lambda: calls.append(1), 3600)
    periodic.start()
    periodic.stop()
    assert calls == []
