"""The queue of events of one process, over a broker that is told what to do."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from celery import Celery

from hexgen_celery import events
from hexgen_celery.events import EventPipe, PipedDispatcher, event_pipe, send_event

PATIENCE = 10.0


@pytest.fixture
def app() -> Celery:
    return Celery(
        "test", broker="memory://", set_as_current=False, events="hexgen_celery.events:PipedEvents"
    )


class _Pipe(EventPipe):
    """Keeps what it publishes; raises `trouble` first, one per batch."""

    def __init__(self, app: Celery) -> None:
        super().__init__(app)
        self.published: list[dict[str, Any]] = []
        self.trouble: list[Exception] = []

    def _publish(self, producer: Any, batch: list[dict[str, Any]]) -> None:
        if self.trouble:
            raise self.trouble.pop()
        self.published.extend(batch)


def _event(number: int) -> dict[str, Any]:
    return {"type": "task-started", "number": number}


def _numbers(pipe: _Pipe) -> list[int]:
    return [event["number"] for event in pipe.published]


def test_nothing_is_lost_from_many_threads(app: Celery) -> None:
    pipe = _Pipe(app)

    def send(first: int) -> None:
        for number in range(first, first + 200):
            pipe.put(_event(number))

    threads = [threading.Thread(target=send, args=(k * 200,)) for k in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pipe.close(PATIENCE)
    assert sorted(_numbers(pipe)) == list(range(3200))
    for first in range(0, 3200, 200):
        own = [n for n in _numbers(pipe) if first <= n < first + 200]
        assert own == sorted(own), "events of one thread stay in order"


def test_events_wait_for_a_broker_that_is_away(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "RETRY_SECONDS", 0.01)
    pipe = _Pipe(app)
    with app.connection_for_write() as connection:
        pipe.trouble = [connection.connection_errors[0]("gone")] * 3
    for number in range(5):
        pipe.put(_event(number))
    until = time.monotonic() + PATIENCE
    while len(pipe.published) < 5 and time.monotonic() < until:
        time.sleep(0.01)
    assert _numbers(pipe) == list(range(5))
    pipe.close()


def test_events_that_cannot_be_encoded_do_not_hold_up_the_others(app: Celery) -> None:
    pipe = _Pipe(app)
    pipe.trouble = [TypeError("not JSON")]
    pipe.put(_event(0))
    until = time.monotonic() + PATIENCE
    while not pipe.dropped and time.monotonic() < until:
        time.sleep(0.01)
    pipe.put(_event(1))
    pipe.close(PATIENCE)
    assert (_numbers(pipe), pipe.dropped) == ([1], 1)


def test_a_full_pipe_gives_up_the_oldest(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_WAITING", 3)
    pipe = _Pipe(app)
    monkeypatch.setattr(pipe, "_ensure_thread", lambda: None)
    for number in range(5):
        pipe.put(_event(number))
    assert pipe.dropped == 2
    monkeypatch.undo()
    pipe.put(_event(5))
    pipe.close(PATIENCE)
    assert _numbers(pipe) == [2, 3, 4, 5]


def test_a_closed_pipe_starts_again_when_it_is_used(app: Celery) -> None:
    pipe = _Pipe(app)
    for number in range(2):
        pipe.put(_event(number))
        pipe.close(PATIENCE)
    assert _numbers(pipe) == [0, 1]


def test_dispatchers_honour_their_groups_and_their_switch(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(event_pipe(app), "put", sent.append)
    with app.connection_for_write() as connection:
        dispatcher = app.events.Dispatcher(connection, hostname="w@h", groups=["worker"])
        assert isinstance(dispatcher, PipedDispatcher)
        dispatcher.send("task-started", uuid="1", retry=True)
        dispatcher.send("worker-heartbeat", freq=2.0, retry=True)
        dispatcher.flush()
        dispatcher.disable()
        dispatcher.send("worker-heartbeat")
        dispatcher.enable()
        dispatcher.send("worker-online")
        dispatcher.close()
    assert [event["type"] for event in sent] == ["worker-heartbeat", "worker-online"]
    assert sent[0]["hostname"] == "w@h"
    assert sent[0]["freq"] == 2.0
    assert "retry" not in sent[0]


def test_an_event_about_a_task_that_ended_elsewhere_has_all_that_receivers_need(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(event_pipe(app), "put", sent.append)
    send_event(app, "llm-a@h", "task-succeeded", uuid="w1", result="{}", runtime=1.5)
    (event,) = sent
    assert event["type"] == "task-succeeded"
    assert {"uuid", "result", "runtime", "hostname", "timestamp", "clock", "utcoffset"} <= set(
        event
    )
