"""The tracer of `hexgen.ask`: what a worker's request is told."""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.exceptions import Ignore

from workers.quick_ignore import Arguments, quick_tracer, quicken


def _celerys(*arguments: Any) -> Any:
    return ("celery traced", arguments)


def test_a_received_question_ends_ignored() -> None:
    received: list[Any] = []

    def receive(*arguments: Any) -> None:
        received.append(arguments)

    retval, info, runtime, _ = quick_tracer(receive, _celerys)("w1", [1], {"a": 2}, {"id": "w1"})
    assert received == [("w1", [1], {"a": 2}, {"id": "w1"})]
    assert isinstance(retval.exception, Ignore)
    assert info, "a worker takes what has info for not succeeded"
    assert runtime >= 0


def test_whatever_goes_wrong_takes_celerys_way() -> None:
    def receive(*_arguments: Any) -> None:
        raise ValueError("refused")

    outcome = quick_tracer(receive, _celerys)("w1", [1], {"a": 2}, {"id": "w1"})
    retried = (Arguments([1], {"a": 2}),)
    assert outcome == ("celery traced", ("w1", retried, {}, {"id": "w1"}))


def _nothing() -> None: ...


def test_the_step_replaces_the_tracer_of_that_task_alone() -> None:
    app = Celery("test", broker="memory://", set_as_current=False)
    for name in ("ours", "other"):
        app.task(_nothing, name=name, shared=False)
    quicken(app, "ours", lambda *_: None)
    (step,) = app.steps["consumer"]

    class _Consumer:
        def __init__(self) -> None:
            self.app = app
            self.steps: list[Any] = []

    app.tasks["ours"].__trace__ = app.tasks["other"].__trace__ = _celerys
    consumer = _Consumer()
    step(consumer).start(consumer)
    assert app.tasks["other"].__trace__ is _celerys
    assert isinstance(app.tasks["ours"].__trace__("w1", [], {})[0].exception, Ignore)
