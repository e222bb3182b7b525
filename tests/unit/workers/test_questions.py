"""Receiving questions: the arguments of `hexgen.ask`, and what Celery is told."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import redis
from celery import Celery, states

from hexgen_celery.coordination.transitions import Defer
from hexgen_celery.errors import InvalidSubmission, QuestionFailed
from hexgen_celery.names import ASK
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.definition import Submission
from workers.questions import Reception, SendingThread, register_ask


class _Databases:
    def names(self) -> list[str]:
        return ["heroes"]


class _Starter:
    def __init__(self, error: Exception | None = None) -> None:
        self.started: list[Submission] = []
        self.sent: list[str] = []
        self.error = error

    def start(self, submission: Submission, later: Defer) -> None:
        if self.error is not None:
            raise self.error
        self.started.append(submission)
        later(lambda: self.sent.append(submission.workflow_id))


def _wait(event: threading.Event) -> None:
    assert event.wait(10)


def _reception(starter: _Starter) -> Reception:
    return Reception(Settings(), _Databases(), starter)


def test_arguments_by_position_and_by_name_mean_the_same() -> None:
    starter = _Starter()
    reception = _reception(starter)
    reception.receive("t1", ("Who?", "heroes", 9, "acme", "hint"), {})
    reception.receive(
        "t1",
        (),
        {
            "question": "Who?",
            "database": "heroes",
            "slo_seconds": 9,
            "tenant": "acme",
            "evidence": "hint",
        },
    )
    first, second = starter.started
    assert first.workflow_id == "t1"
    for name in ("question", "database", "slo_seconds", "tenant", "evidence"):
        assert getattr(first, name) == getattr(second, name), name


def test_requests_are_sent_by_a_thread_of_their_own_and_none_is_left_behind() -> None:
    starter, sending = _Starter(), SendingThread()
    reception = Reception(Settings(), _Databases(), starter, sending.submit)
    sending.start()
    held = threading.Event()
    sending.submit(lambda: _wait(held))
    for number in range(5):
        reception.receive(f"t{number}", ("Who?", "heroes"), {})
    assert len(starter.started) == 5
    assert starter.sent == []
    held.set()
    sending.stop()
    assert starter.sent == [f"t{number}" for number in range(5)]


def test_what_cannot_be_sent_waits_in_the_outbox_and_hinders_nobody() -> None:
    def broken() -> None:
        raise redis.ConnectionError("away")

    sending = SendingThread()
    done: list[int] = []
    sending.submit(broken)
    sending.submit(lambda: done.append(1))
    sending.stop()
    assert done == [1]


@pytest.mark.parametrize(
    ("arguments", "keywords", "part"),
    [
        (("q", "heroes", 1, "t", "e", 0.0, "more"), {}, "at most 6 positional"),
        (("q", "heroes"), {"question": "again"}, "question is given twice"),
        ((), {"question": "q", "database": "villains"}, "unknown database"),
    ],
)
def test_a_refusal_is_one_json_object(
    arguments: tuple[Any, ...], keywords: dict[str, Any], part: str
) -> None:
    starter = _Starter()
    with pytest.raises(QuestionFailed) as caught:
        _reception(starter).receive("t1", arguments, keywords)
    (body,) = caught.value.args
    assert part in body["cause"]
    assert body["workflow_id"] == "t1"
    assert (body["status"], body["stage"]) == ("failed", "submission")
    assert starter.started == []


def test_what_the_workflow_refuses_is_refused_too() -> None:
    starter = _Starter(InvalidSubmission("no such option", field="options.x", hint="leave it out"))
    with pytest.raises(QuestionFailed) as caught:
        _reception(starter).receive("t1", ("Who?", "heroes"), {})
    assert caught.value.args[0]["field"] == "options.x"


def _app(starter: _Starter) -> Celery:
    app = Celery("test", broker="memory://", backend="cache+memory://", set_as_current=False)
    register_ask(app, _reception(starter))
    return app


def test_the_task_leaves_its_result_to_the_workflow() -> None:
    starter = _Starter()
    outcome = _app(starter).tasks[ASK].apply(("Who?", "heroes"), task_id="t7")
    assert outcome.state == states.IGNORED
    assert [submission.workflow_id for submission in starter.started] == ["t7"]


def test_the_task_fails_on_a_wrong_submission() -> None:
    outcome = _app(_Starter()).tasks[ASK].apply(("", "heroes"))
    assert outcome.state == states.FAILURE
    assert isinstance(outcome.result, QuestionFailed)


def test_the_task_goes_back_while_redis_is_away() -> None:
    outcome = _app(_Starter(redis.ConnectionError("gone"))).tasks[ASK].apply(("Who?", "heroes"))
    assert outcome.state == states.REJECTED
