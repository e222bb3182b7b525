"""What the demo says at its end: of a real model also which answers are right."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from hexgen_celery.answers import Answer, NoAnswer, Outcome
from hexgen_celery.api import Question
from hexgen_celery.cli.demo_report import DemoReport, QuestionReport, show_report
from hexgen_celery.cli.demo_verdicts import with_verdicts
from hexgen_celery.demo import DemoFiles, build_demo

WRONG = "SELECT COUNT(*) FROM customer WHERE country = 'Norway'"
BROKEN = "SELECT nothing FROM nowhere"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> DemoFiles:
    """The demo's database and questions."""
    return build_demo(tmp_path_factory.mktemp("demo"))


def _answer(sql: str) -> Answer:
    result: dict[str, Any] = {
        "workflow_id": "w",
        "question": "?",
        "database": "roastery",
        "columns": ["COUNT(*)"],
        "rows": [[32]],
        "truncated": False,
        "sql": sql,
        "submitted_at": 0.0,
        "finished_at": 1.0,
        "latency_seconds": 1.0,
        "slo_seconds": 60.0,
        "deadline": 60.0,
        "deadline_met": True,
    }
    return Answer.from_json(result)


def _report(files: DemoFiles, *outcomes: Outcome | None) -> DemoReport:
    asked = [Question(gold.question, gold.database, 60.0) for gold in files.questions]
    return DemoReport(
        tuple(
            QuestionReport(number, "relaxed", question, outcome)
            for number, (question, outcome) in enumerate(zip(asked, outcomes, strict=False), 1)
        ),
        seconds=1.0,
        first_answer_seconds=1.0,
    )


def _shown(report: DemoReport) -> str:
    screen = Console(file=io.StringIO(), width=200)
    show_report(screen, report)
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_each_answer_is_compared_with_the_rows_of_the_gold_sql(files: DemoFiles) -> None:
    other_words = files.questions[1].gold.replace("SELECT ", "SELECT DISTINCT ")
    no_answer = NoAnswer("w", "failed", {"cause": "none of 7 candidates ran"})
    report = with_verdicts(
        _report(files, _answer(WRONG), _answer(other_words), no_answer, None), files
    )
    assert [each.verdict and each.verdict.right for each in report.questions] == [
        False,
        True,
        None,
        None,
    ]
    assert report.right == 1
    assert [each["right"] for each in report.to_json()["results"]] == [False, True, None, None]
    shown = _shown(report)
    assert f"wrong: not the rows of the gold SQL, {files.questions[0].gold}" in shown
    assert "right: the rows of the gold SQL" in shown
    assert "1 of 4 right" in shown


def test_sql_that_cannot_be_run_again_is_wrong(files: DemoFiles) -> None:
    assert with_verdicts(_report(files, _answer(BROKEN)), files).right == 0


def test_a_model_that_answered_nothing_was_never_right(files: DemoFiles) -> None:
    report = with_verdicts(_report(files, None, None), files)
    assert report.right == 0
    assert "0 of 2 right" in _shown(report)


def test_nothing_is_said_of_right_and_wrong_where_nobody_judged(files: DemoFiles) -> None:
    report = _report(files, _answer(WRONG))
    assert report.right is None
    assert json.loads(json.dumps(report.to_json()))["right"] is None
    shown = _shown(report)
    assert "right" not in shown
    assert "wrong" not in shown


def test_verdicts_go_with_their_questions_when_only_some_were_asked(
    files: DemoFiles,
) -> None:
    some = replace(files, questions=files.questions[:3])
    golds = [_answer(gold.gold) for gold in some.questions]
    report = with_verdicts(_report(files, *golds), files)
    assert report.right == len(some.questions)
    assert [each.verdict.gold for each in report.questions if each.verdict] == [
        gold.gold for gold in some.questions
    ]
