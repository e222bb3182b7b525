"""How a run is followed and shown."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import pytest
from rich.console import Console

from hexgen_celery.cli.live_view import LiveTable, PlainLines, headline, view_of
from hexgen_celery.cli.output import cell, moment, seconds, table
from hexgen_celery.cli.progress import Progress, QuestionProgress


def _event(kind: str, workflow: str = "a", **facts: Any) -> dict[str, Any]:
    return {"event": kind, "workflow": workflow, **facts}


@pytest.fixture
def progress() -> Progress:
    return Progress(
        {
            "a": QuestionProgress(1, "Which cities?", "interactive", 108.0),
            "b": QuestionProgress(2, "Which countries?", "relaxed", 104.0),
        }
    )


def test_a_question_is_followed_from_ready_to_its_end(progress: Progress) -> None:
    question = progress.questions["a"]
    progress.apply([_event("ready", node="link", stage="schema_linking")])
    assert (question.stage, question.at_work) == ("schema_linking", {"link": "waiting"})
    progress.apply([_event("sent", node="link", queue="gpu.a100.demo")])
    assert question.at_work == {"link": "queue gpu.a100.demo"}
    progress.apply([_event("claimed", node="link", instance="a100-1", queue="gpu.a100.demo")])
    assert progress.places() == Counter({"a100-1": 1})
    progress.apply([_event("done", node="link"), _event("ready", node="x", stage="evaluation")])
    assert (question.requests_done, question.stage) == (1, "evaluation")
    assert progress.apply([_event("finished", status="answered")]) == ["a"]
    assert not question.running
    assert question.at_work == {}
    assert progress.statuses() == Counter({"answered": 1, "running": 1})


def test_a_late_sent_event_does_not_revive_a_request(progress: Progress) -> None:
    progress.apply([_event("done", node="link"), _event("sent", node="link", queue="sql")])
    assert progress.questions["a"].at_work == {}


def test_dropped_and_failed_requests_are_not_counted_as_done(progress: Progress) -> None:
    progress.apply(
        [
            _event("ready", node="x", stage="evaluation"),
            _event("claimed", node="x", queue="sql", instance=""),
            _event("dropped", node="x"),
            _event("failed", node="y"),
        ]
    )
    question = progress.questions["a"]
    assert (question.requests_done, question.at_work) == (0, {})


def test_events_of_other_questions_are_ignored(progress: Progress) -> None:
    assert progress.apply([_event("finished", "stranger", status="answered")]) == []


def test_the_nearest_deadline_comes_first(progress: Progress) -> None:
    assert [question.number for question in progress.running] == [2, 1]


def test_the_live_table_shows_questions_that_run(progress: Progress) -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=120, height=30)
    progress.apply([_event("ready", node="link", stage="schema_linking")])
    view = LiveTable(progress, console, now=lambda: 100.0)
    with view:
        view.show([])
    console.print(view.render())
    shown = output.getvalue()
    for part in ("Which cities?", "schema_linking", "8.0 s", "2 running", "waiting"):
        assert part in shown


def test_plain_lines_tell_of_ends_and_now_and_then_of_all(progress: Progress) -> None:
    output = io.StringIO()
    clock = iter([0.0, 1.0, 10.0, 10.0])
    view = PlainLines(progress, Console(file=output, width=120), now=lambda: next(clock))
    with view:
        view.show([])
        progress.apply([_event("finished", status="failed")])
        view.show([progress.questions["a"]])
    assert "failed    #1   interactive Which cities?" in output.getvalue()
    assert "1 failed, 1 running" in output.getvalue()


def test_the_console_decides_the_view(progress: Progress) -> None:
    assert isinstance(view_of(progress, Console(force_terminal=True)), LiveTable)
    assert isinstance(view_of(progress, Console(file=io.StringIO())), PlainLines)
    assert headline(progress) == "2 running"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "—"),
        (0.123456, "0.1235"),
        ("two\nlines", "two lines"),
        ({"$blob": "00"}, '{"$blob": "00"}'),
        ("x" * 99, "x" * 59 + "…"),
    ],
)
def test_cells(value: object, expected: str) -> None:
    assert cell(value) == expected


def test_markup_in_data_is_shown_as_it_is() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(table("", ("[red]", "n"), [("[bold]x[/bold]", 1)]))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "[bold]x[/bold]" in shown
    assert "[red]" in shown


def test_times() -> None:
    assert (seconds(None), seconds(1.5), moment(None)) == ("—", "1.50 s", "—")
    assert len(moment(0.0)) == len("00:00:00.000")
