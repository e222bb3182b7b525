"""Celery's threads with a cold shutdown."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kombu.asynchronous import Hub, get_event_loop, set_event_loop

from hexgen_celery.transport import process
from hexgen_celery.transport.thread_pool import ThreadPool, run_pending_callbacks


class Deed:
    """What the pool did at its end."""

    def __init__(self) -> None:
        self.handed_back = 0
        self.exits: list[Any] = []


@pytest.fixture
def deed(monkeypatch: pytest.MonkeyPatch) -> Deed:
    done = Deed()

    class FakeTimer:
        def __init__(self, seconds: float, function: Any, arguments: tuple[int]) -> None:
            done.exits.append((seconds, *arguments))
            self.daemon = False

        def start(self) -> None:
            assert self.daemon

    def hand_back_all() -> None:
        done.handed_back += 1

    monkeypatch.setattr(threading, "Timer", FakeTimer)
    monkeypatch.setattr(process, "hand_back_all", hand_back_all)
    return done


@pytest.fixture
def hub() -> Iterator[Hub]:
    before = get_event_loop()
    loop = Hub()
    set_event_loop(loop)
    yield loop
    loop.close()
    set_event_loop(before)


def test_a_warm_stop_waits_for_running_tasks(deed: Deed) -> None:
    pool = ThreadPool(limit=1)
    running = pool.executor.submit(time.sleep, 0.2)
    pool.on_stop()
    assert running.done()
    assert (deed.handed_back, deed.exits) == (0, [])


def test_a_cold_stop_hands_back_and_ends_the_process(deed: Deed, hub: Hub) -> None:
    pool = ThreadPool(limit=1)
    ended = threading.Event()
    pool.executor.submit(ended.wait, 10)
    acknowledged: list[str] = []
    hub.call_soon(acknowledged.append, "finished task")
    pool.terminate_job(1)
    pool.on_stop()
    assert not ended.is_set()
    assert acknowledged == ["finished task"]
    assert (deed.handed_back, deed.exits) == (1, [(1.0, 1)])
    ended.set()


def test_termination_is_cold(deed: Deed) -> None:
    ThreadPool(limit=1).on_terminate()
    assert deed.handed_back == 1


def test_without_an_event_loop_nothing_is_pending() -> None:
    before = get_event_loop()
    set_event_loop(None)
    run_pending_callbacks()
    set_event_loop(before)
