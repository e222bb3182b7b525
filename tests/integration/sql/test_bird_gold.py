"""Real BIRD and Spider questions through guard and sandbox, against plain sqlite3."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hexgen_celery.evaluation.bird import load_bird
from hexgen_celery.evaluation.predictions import read_predictions
from hexgen_celery.evaluation.questions import QuestionSet
from hexgen_celery.evaluation.scoring import EVALUATION_LIMITS, Scorer
from hexgen_celery.evaluation.spider import load_spider
from hexgen_celery.sql.execution import DatabaseFile, ExecuteRequest
from hexgen_celery.sql.guard import check_statement
from workers.sandbox_pool import SandboxPool

DATA = Path(os.environ.get("HEXGEN_DATA", Path(__file__).parents[3] / ".." / "shared" / "data"))

pytestmark = [
    pytest.mark.integration,
    pytest.mark.data,
    pytest.mark.skipif(not (DATA / "bird").is_dir(), reason="the shared BIRD data is absent"),
]


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(2) as running:
        yield running


def plain_rows(path: Path, sql: str) -> list[list[Any]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        return [list(row) for row in connection.execute(sql)]


def files_of(found: QuestionSet) -> dict[str, DatabaseFile]:
    return {name: DatabaseFile(str(path)) for name, path in found.databases.items()}


@pytest.mark.parametrize("name", ["bird", "spider"])
def test_every_gold_statement_gives_the_rows_of_plain_sqlite(pool: SandboxPool, name: str) -> None:
    found = load_bird(DATA / "bird" / "dev") if name == "bird" else load_spider(DATA / "spider")
    files = files_of(found)
    for each in found.questions:
        assert check_statement(each.gold).tree is not None
        request = ExecuteRequest(files[each.database], each.gold, EVALUATION_LIMITS)
        result = pool.execute(request)
        assert result.ok, (each.key, result.error)
        assert list(result.rows) == plain_rows(found.databases[each.database], each.gold), each.key


def test_scores_agree_with_a_direct_comparison(pool: SandboxPool) -> None:
    found = load_bird(DATA / "bird" / "dev", "superhero", subset="mini")
    files = read_predictions(DATA / "bird" / "dev" / "predictions").files
    chosen = next(file for file in files if "gpt-35-turbo" in file.name)
    predictions = {each.key: chosen.by_question[each.question_id] for each in found.questions}
    score = Scorer(pool, files_of(found)).score(found.questions, predictions)
    path = found.databases["superhero"]
    for each, verdict in zip(found.questions, score.verdicts, strict=True):
        gold = set(map(tuple, plain_rows(path, each.gold)))
        try:
            right = set(map(tuple, plain_rows(path, predictions[each.key]))) == gold
        except sqlite3.Error:
            right = False
        assert verdict.correct is right, each.key
    assert 0.0 < score.total.ex < 1.0
    assert json.dumps(score.to_json())
