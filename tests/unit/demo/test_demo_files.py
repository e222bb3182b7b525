"""The demo's database, questions and recorded answers, run for real."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hexgen_celery.demo import DemoFiles, build_demo
from hexgen_celery.demo.answers import EMPTY_PLOT, PLOTS, demo_replay
from hexgen_celery.demo.questions import DemoQuestion, read_questions
from hexgen_celery.evaluation.bird import load_bird
from hexgen_celery.evaluation.replay import ReplayRecord
from hexgen_celery.sql.databases import DatabaseRegistry
from hexgen_celery.sql.extract import extract_sql
from hexgen_celery.sql.metrics import execution_match
from hexgen_celery.sql.readonly import Rules, open_read_only

QUESTIONS = read_questions()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoFiles:
    return build_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def connection(demo: DemoFiles) -> Iterator[sqlite3.Connection]:
    with closing(open_read_only(str(demo.database), immutable=True)) as opened:
        Rules(opened)
        yield opened


def test_the_database_is_as_awkward_as_real_ones(connection: sqlite3.Connection) -> None:
    tables = [
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]
    counts = [connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables]
    assert len(tables) >= 6
    assert sum(counts) >= 5_000
    (schema,) = connection.execute("SELECT group_concat(sql) FROM sqlite_master").fetchone()
    assert schema.count("REFERENCES") >= 8
    assert "`Unit Price (EUR)`" in schema
    assert "`order`" in schema
    dirty = "SELECT count(*) FROM sale WHERE sold_on IS NULL OR sold_on NOT LIKE '____-__-__'"
    assert connection.execute(dirty).fetchone()[0] > 50
    bad = "SELECT count(*) FROM review WHERE hex(comment) LIKE '%E920%'"
    assert connection.execute(bad).fetchone() == (1,)


def test_keys_hold(demo: DemoFiles) -> None:
    with closing(sqlite3.connect(demo.database)) as plain:
        assert plain.execute("PRAGMA foreign_key_check").fetchall() == []
        assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_same_seed_gives_the_same_files(demo: DemoFiles, tmp_path: Path) -> None:
    again = build_demo(tmp_path / "again")
    other = build_demo(tmp_path / "other", seed=8)

    def rows(files: DemoFiles) -> list[str]:
        with closing(sqlite3.connect(files.database)) as plain:
            plain.text_factory = bytes
            return [str(row) for row in plain.execute("SELECT * FROM sale ORDER BY sale_id")]

    assert rows(again) == rows(demo)
    assert rows(other) != rows(demo)
    assert again.replay.read_bytes() == demo.replay.read_bytes()
    assert again.questions_file.read_bytes() == demo.questions_file.read_bytes()


def test_building_again_replaces_the_files(tmp_path: Path) -> None:
    first = build_demo(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert build_demo(tmp_path) == first
    assert sorted(tmp_path.rglob("*")) == before


def test_the_layout_is_birds(demo: DemoFiles, tmp_path: Path) -> None:
    found = load_bird(demo.directory)
    assert found.questions == demo.questions
    assert Counter(each.difficulty for each in found.questions).keys() == {
        "simple",
        "moderate",
        "challenging",
    }
    assert len(found.questions) >= 40

    class Texts(dict[str, str]):
        put = dict.__setitem__
        delete = dict.__delitem__

        def names(self) -> list[str]:
            return list(self)

    registry = DatabaseRegistry(Texts(), Texts(), tmp_path)
    (entry,) = registry.add(demo.directory)
    assert (entry.name, entry.tables) == ("roastery", 8)
    schema = registry.schema("roastery")
    assert "a reserved word: must be quoted" in schema
    columns = [column for table in registry.catalog("roastery").tables for column in table.columns]
    assert all(column.description for column in columns)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: str(each.number))
def test_every_variant_does_what_its_name_says(
    connection: sqlite3.Connection, question: DemoQuestion
) -> None:
    gold = connection.execute(question.gold).fetchall()
    assert gold
    assert any(cell is not None for row in gold for cell in row)
    wrong = connection.execute(question.wrong).fetchall()
    assert wrong
    assert not execution_match(wrong, gold)
    with pytest.raises(sqlite3.Error):
        connection.execute(question.broken)
    if question.empty:
        rows = connection.execute(question.empty).fetchall()
        assert not any(cell is not None for row in rows for cell in row)


def test_questions_are_different() -> None:
    assert len({each.question for each in QUESTIONS}) == len(QUESTIONS)
    assert sum(bool(each.empty) for each in QUESTIONS) >= 8


def by_place(records: list[ReplayRecord], step: str) -> dict[tuple[str, str], str]:
    return {
        (record.question, record.index): record.completion
        for record in records
        if record.step == step
    }


def test_answers_give_correction_and_evaluation_real_work(connection: sqlite3.Connection) -> None:
    records = list(demo_replay(QUESTIONS))
    candidates, revisions = by_place(records, "candidate"), by_place(records, "revise")
    assert len(candidates) == 4 * len(QUESTIONS)
    outcomes: Counter[str] = Counter()
    for completion in candidates.values():
        found = extract_sql(completion)
        assert found.source == "fence"
        try:
            rows = connection.execute(found.sql).fetchall()
            outcomes["rows" if any(any(c is not None for c in r) for r in rows) else "empty"] += 1
        except sqlite3.Error:
            outcomes["error"] += 1
    assert outcomes["error"] >= 20
    assert outcomes["empty"] >= 8
    assert outcomes["rows"] >= 90
    gold = {each.gold_question.key: each.gold for each in QUESTIONS}
    healed = [place for place, text in revisions.items() if extract_sql(text).sql == gold[place[0]]]
    assert len(healed) >= 20
    choices = by_place(records, "choose")
    assert {json.loads(text)["choice"] for text in choices.values()} == {1, 2}


def test_plots_are_of_one_shape() -> None:
    for plot in (*PLOTS, EMPTY_PLOT):
        assert len(plot.candidates) == 4
        assert all(1 <= len(answers) <= 3 for answers in plot.candidates)
