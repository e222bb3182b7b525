"""What a Celery client wants to follow its question is kept, and sent at its end."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from celery import Celery, chain, signature, states

from hexgen_celery.follow_ups import follow, follow_ups
from hexgen_celery.names import ASK

ANSWER = {"rows": [[1]]}


class Backend:
    """Notes what Celery's own code asks of it."""

    def __init__(self) -> None:
        self.failed: list[Any] = []
        self.parts: list[Any] = []

    def mark_as_failure(self, task_id: str, error: Any, *, request: Any) -> None:
        self.failed.append((task_id, error, request.errbacks, request.chain))

    def remove_pending_result(self, result: Any) -> None:
        """Nobody waits."""

    def on_chord_part_return(self, request: Any, state: str, result: Any) -> None:
        self.parts.append((request.id, request.group, state, result))


class App(Celery):  # type: ignore[misc]
    """Notes what would be sent."""

    def __init__(self) -> None:
        super().__init__("test", broker="memory://", set_as_current=False)
        self.sent: list[tuple[str, Any, Any]] = []
        self.trouble: Exception | None = None
        self.noted = Backend()

    @property
    def backend(self) -> Any:
        return self.noted

    def send_task(self, name: str, args: Any = None, *_rest: Any, **options: Any) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.sent.append((name, list(args or ()), options.get("chain")))


def plain(name: str, **options: Any) -> Any:
    """A signature as it comes out of a message."""
    return json.loads(json.dumps(signature(name, **options)))


@pytest.fixture
def app() -> App:
    return App()


def test_only_what_is_for_the_end_is_kept() -> None:
    request = {"id": "q", "callbacks": [{"task": "a"}], "errbacks": None, "group": "g", "chain": []}
    assert follow_ups(request) == {"callbacks": [{"task": "a"}]}
    chord = {"chord": {"task": "body"}, "group": "g", "group_index": 0, "errbacks": [{"task": "e"}]}
    assert follow_ups({**chord, "delivery_info": {}}) == chord
    assert follow_ups({}) == {}


def test_links_and_the_next_of_a_chain_get_the_answer(app: App) -> None:
    last, after = plain("last"), plain("next")
    wanted = {"callbacks": [plain("one"), plain("two")], "chain": [last, after]}
    follow(app, "q", wanted, ANSWER, states.SUCCESS)
    assert app.sent == [
        ("one", [ANSWER], None),
        ("two", [ANSWER], None),
        ("next", [ANSWER], [last]),
    ]


def test_a_failure_takes_celerys_way_and_a_cancel_sends_nothing(app: App) -> None:
    wanted = {"callbacks": [plain("one")], "errbacks": [plain("e")], "chain": [1]}
    follow(app, "q", wanted, ANSWER, states.REVOKED)
    assert (app.sent, app.noted.failed) == ([], [])
    follow(app, "q", wanted, ANSWER, states.FAILURE)
    assert app.sent == []
    assert app.noted.failed == [("q", ANSWER, [plain("e")], [1])]


@pytest.mark.parametrize("state", [states.SUCCESS, states.REVOKED])
def test_a_chord_is_told_of_its_part(app: App, state: str) -> None:
    follow(app, "q", {"chord": {"task": "body"}, "group": "g"}, ANSWER, state)
    assert app.noted.parts == [("q", "g", state, ANSWER)]


def test_a_signature_that_is_none_is_logged_and_passed_over(app: App) -> None:
    follow(app, "q", {"callbacks": [{"no": "task"}, 7]}, ANSWER, states.SUCCESS)
    assert app.sent == []


def test_a_broker_that_is_away_is_tried_again_by_the_caller(app: App) -> None:
    app.trouble = redis.ConnectionError("away")
    with pytest.raises(redis.ConnectionError):
        follow(app, "q", {"callbacks": [plain("one")]}, ANSWER, states.SUCCESS)


def test_what_a_real_chain_sends_is_understood(app: App) -> None:
    """The first message of a chain carries the rest, the next one last."""
    question = signature(ASK, kwargs={"question": "Who?"}, app=app)
    steps = chain(question, signature("next", app=app), signature("last", app=app))
    first, *rest = reversed(steps.prepare_steps((), {}, steps.tasks, app=app)[0])
    assert first.task == ASK
    follow(
        app, "q", {"chain": json.loads(json.dumps(list(reversed(rest))))}, ANSWER, states.SUCCESS
    )
    ((name, args, following),) = app.sent
    assert (name, args) == ("next", [ANSWER])
    assert [step["task"] for step in following] == ["last"]
