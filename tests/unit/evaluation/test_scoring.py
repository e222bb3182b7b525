"""Scoring predictions against gold, with the sandbox's own request handling in this process."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from hexgen_celery.evaluation.questions import GoldQuestion
from hexgen_celery.evaluation.scoring import Score, Scorer, Verdict, spider_result_match
from hexgen_celery.sql.execution import (
    DatabaseFile,
    ExecuteRequest,
    ExecuteResult,
    StatementLimits,
)
from workers import sandbox


class InProcess:
    """Runs statements in this process under the sandbox's rules."""

    def execute(self, request: ExecuteRequest) -> ExecuteResult:
        connections = sandbox.Connections(heap_bytes=0)
        limits = request.limits
        answer = sandbox.serve_one(
            connections,
            {
                "id": 1,
                "op": request.operation,
                "path": request.database.path,
                "immutable": request.database.immutable,
                "sql": request.sql,
                "seconds": limits.seconds,
                "rows": limits.rows,
                "bytes": limits.result_bytes,
            },
        )
        connections.close()
        del answer["id"]
        return ExecuteResult.from_json(answer)


@pytest.fixture
def scorer(tmp_path: Path) -> Scorer:
    path = tmp_path / "shop.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE item (id INTEGER, name TEXT)")
        connection.executemany("INSERT INTO item VALUES (?, ?)", [(n, f"n{n}") for n in range(5)])
    connection.close()
    limits = StatementLimits(seconds=0.5, rows=100)
    return Scorer(InProcess(), {"shop": DatabaseFile(str(path))}, limits)


def question(number: int, gold: str, difficulty: str = "simple") -> GoldQuestion:
    return GoldQuestion(number, "shop", "?", gold, difficulty=difficulty)


ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT sum(n) FROM c"
LONG = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 200) SELECT n FROM c"


@pytest.mark.parametrize(
    ("gold", "sql", "correct", "status"),
    [
        ("SELECT id FROM item", "SELECT id FROM item ORDER BY id DESC", True, "ok"),
        ("SELECT id FROM item", "SELECT id FROM item WHERE id < 3", False, "ok"),
        ("SELECT nope FROM item", "SELECT nope FROM item", False, "error"),
        (ENDLESS, ENDLESS, False, "timeout"),
        (LONG, LONG, False, "truncated"),
        ("SELECT 1", "DELETE FROM item", False, "rejected"),
        ("SELECT 1", "  ", False, "missing"),
        ("SELECT id FROM item WHERE 0", "SELECT id FROM item WHERE 0", True, "ok"),
    ],
)
def test_verdicts(scorer: Scorer, gold: str, sql: str, correct: bool, status: str) -> None:
    verdict = scorer.judge(question(1, gold), sql)
    assert (verdict.correct, verdict.status) == (correct, status)
    assert verdict.answered is (status != "missing")


def test_scores_by_difficulty_count_the_unanswered_as_wrong(scorer: Scorer) -> None:
    questions = [
        question(1, "SELECT 1"),
        question(2, "SELECT 2"),
        question(3, "SELECT 3", "challenging"),
    ]
    seen: list[Verdict] = []
    score = scorer.score(questions, {"shop:1": "SELECT 1", "shop:3": "SELECT 4"}, seen.append)
    assert [verdict.key for verdict in score.verdicts] == ["shop:1", "shop:2", "shop:3"]
    assert len(seen) == 3
    result = score.to_json()
    assert (result["questions"], result["answered"], result["correct"]) == (3, 2, 1)
    assert result["ex"] == pytest.approx(1 / 3)
    assert result["soft_f1"] == pytest.approx(1 / 3)
    assert result["by_difficulty"]["simple"]["ex"] == 0.5
    assert result["by_difficulty"]["challenging"] == {
        "questions": 1,
        "answered": 1,
        "correct": 0,
        "ex": 0.0,
    }
    assert list(result["by_database"]) == ["shop"]


def test_nothing_to_score(scorer: Scorer) -> None:
    assert scorer.score([], {}).to_json()["ex"] == 0.0


def test_spiders_match_can_be_used(scorer: Scorer) -> None:
    spider = Scorer(scorer.executor, scorer.files, scorer.limits, match=spider_result_match)
    swapped = "SELECT name, id FROM item ORDER BY id"
    assert spider.judge(question(1, "SELECT id, name FROM item ORDER BY id"), swapped).correct
    wrong_order = "SELECT name, id FROM item ORDER BY id DESC"
    assert not spider.judge(
        question(1, "SELECT id, name FROM item ORDER BY id"), wrong_order
    ).correct


def test_right_answers_are_timed_for_r_ves(scorer: Scorer) -> None:
    timed = replace(scorer, timings=3)
    good = question(1, "SELECT id FROM item")
    right = timed.judge(good, "SELECT id FROM item ORDER BY id")
    wrong = timed.judge(good, "SELECT name FROM item")
    missing = timed.judge(good, "")
    assert right.reward in (0.25, 0.5, 0.75, 1.0, 1.25)
    assert (wrong.reward, missing.reward) == (0.0, 0.0)
    assert right.reward is not None
    expected = 100 * right.reward**0.5 / 3
    assert Score((right, wrong, missing)).r_ves == pytest.approx(expected)


def test_without_timings_there_is_no_r_ves(scorer: Scorer) -> None:
    verdict = scorer.judge(question(1, "SELECT 1"), "SELECT 1")
    assert verdict.reward is None
    assert Score((verdict,)).r_ves is None
    assert Score(()).to_json()["r_ves"] is None
