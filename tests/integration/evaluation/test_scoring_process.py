"""Scoring in a program of its own, with real sandboxes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hexgen_celery.evaluation.questions import GoldQuestion
from hexgen_celery.evaluation.scoring_process import ScoringFailed, ScoringJob, score_statements
from hexgen_celery.sql.execution import DatabaseFile

pytestmark = pytest.mark.integration

QUESTIONS = (
    GoldQuestion(1, "shop", "Ids?", "SELECT id, name FROM item"),
    GoldQuestion(2, "shop", "Names in order?", "SELECT name FROM item ORDER BY id DESC"),
)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, DatabaseFile]:
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE item (id INTEGER, name TEXT); INSERT INTO item VALUES (1,'a'),(2,'b');"
        )
    return {"shop": DatabaseFile(str(path))}


def test_every_different_statement_is_judged_once(files: dict[str, DatabaseFile]) -> None:
    seen: list[None] = []
    statements = [
        ("shop:1", "SELECT id, name FROM item ORDER BY 1 DESC"),
        ("shop:1", "SELECT name, id FROM item"),
        ("shop:1", "SELECT nothing FROM nowhere"),
        ("shop:1", ""),
        ("shop:1", "SELECT name, id FROM item"),
    ]
    job = ScoringJob(QUESTIONS, files)
    verdicts = score_statements(job, statements, lambda: seen.append(None))
    assert len(verdicts) == len(seen) == 4
    right = {sql: verdict.correct for (_, sql), verdict in verdicts.items()}
    assert [right[sql] for _, sql in statements[:4]] == [True, False, False, False]
    assert verdicts["shop:1", "SELECT nothing FROM nowhere"].status == "error"


def test_spider_allows_other_columns_orders_but_not_another_order_of_rows(
    files: dict[str, DatabaseFile],
) -> None:
    permuted = ("shop:1", "SELECT name, id FROM item")
    unordered = ("shop:2", "SELECT name FROM item ORDER BY id")
    job = ScoringJob(QUESTIONS, files, metric="spider", timings=1)
    verdicts = score_statements(job, [permuted, unordered])
    assert verdicts[permuted].correct is True
    assert verdicts[unordered].correct is False
    assert verdicts[permuted].reward is not None


def test_a_scoring_program_that_fails_says_why(files: dict[str, DatabaseFile]) -> None:
    with pytest.raises(ScoringFailed, match="shop:9"):
        score_statements(ScoringJob(QUESTIONS, files), [("shop:9", "SELECT 1")])
