"""Loading BIRD and Spider layouts, predictions and replays."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hexgen_celery.evaluation.bird import load_bird
from hexgen_celery.evaluation.predictions import read_predictions
from hexgen_celery.evaluation.questions import UNRATED, GoldQuestion, InvalidDataset
from hexgen_celery.evaluation.replay import (
    REPLAYED_STAGES,
    ReplayRecord,
    ReplayShape,
    build_replay,
    write_replay,
)
from hexgen_celery.evaluation.spider import load_spider
from hexgen_celery.sql.extract import extract_sql
from workers.emulation.replay import ReplayStore

ITEMS = [
    {"question_id": 7, "db_id": "shop", "question": "a?", "evidence": "e", "SQL": "SELECT 1",
     "difficulty": "simple"},
    {"question_id": 9, "db_id": "shop", "question": "b?", "SQL": "SELECT 2 ORDER BY 1"},
    {"question_id": 11, "db_id": "zoo", "question": "c?", "SQL": "SELECT 3"},
]  # fmt: skip


def database(root: Path, name: str) -> None:
    path = root / name / f"{name}.sqlite"
    path.parent.mkdir(parents=True)
    sqlite3.connect(path).close()
    path.touch()


@pytest.fixture
def bird(tmp_path: Path) -> Path:
    root = tmp_path / "dev_20240627"
    database(root / "dev_databases", "shop")
    database(root / "dev_databases", "zoo")
    (root / "dev.json").write_text(json.dumps(ITEMS))
    (root / "mini_dev_sqlite.json").write_text(json.dumps(ITEMS[:1]))
    return root


def test_the_official_layout(bird: Path) -> None:
    found = load_bird(bird)
    assert [each.key for each in found.questions] == ["shop:7", "shop:9", "zoo:11"]
    assert found.questions[0] == GoldQuestion(7, "shop", "a?", "SELECT 1", "e", "simple")
    assert found.questions[1].difficulty == UNRATED
    assert found.questions[1].ordered
    assert not found.questions[0].ordered
    assert found.databases["zoo"] == bird / "dev_databases" / "zoo" / "zoo.sqlite"
    assert load_bird(bird.parent).source == bird / "dev.json"


def test_choosing_questions(bird: Path) -> None:
    assert [each.key for each in load_bird(bird, "shop", 1).questions] == ["shop:7"]
    assert set(load_bird(bird, "zoo").databases) == {"zoo"}
    assert load_bird(bird, subset="mini").source.name == "mini_dev_sqlite.json"


def test_what_is_wrong_with_a_directory_is_said(bird: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidDataset, match="Choose from: shop, zoo") as caught:
        load_bird(bird, "nope")
    assert caught.value.field == "db"
    with pytest.raises(InvalidDataset, match="is no directory"):
        load_bird(tmp_path / "absent")
    with pytest.raises(InvalidDataset, match=r"holds none of train\.json"):
        load_bird(bird, subset="train")
    (bird / "dev_databases" / "zoo" / "zoo.sqlite").unlink()
    with pytest.raises(InvalidDataset, match="no file for the databases zoo"):
        load_bird(bird)
    assert load_bird(bird, "shop").questions


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("{", "cannot be read"),
        ("{}", "not a list"),
        ('[{"db_id": "shop", "question": "a?"}]', "no field 'SQL'"),
    ],
)
def test_broken_question_files(bird: Path, content: str, match: str) -> None:
    (bird / "dev.json").write_text(content)
    with pytest.raises(InvalidDataset, match=match):
        load_bird(bird)


def test_spider(tmp_path: Path) -> None:
    database(tmp_path / "database", "pets")
    items = [{"db_id": "pets", "question": f"{n}?", "query": f"SELECT {n}"} for n in range(3)]
    (tmp_path / "dev.json").write_text(json.dumps(items))
    found = load_spider(tmp_path, limit=2)
    assert [each.key for each in found.questions] == ["pets:0", "pets:1"]
    assert found.questions[1].gold == "SELECT 1"
    with pytest.raises(InvalidDataset, match="Choose from: pets"):
        load_spider(tmp_path, "dogs")
    with pytest.raises(InvalidDataset, match=r"holds no dev\.json"):
        load_spider(tmp_path / "database")


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    directory = tmp_path / "predictions"
    directory.mkdir()
    for model in "abcde":
        answers = {"7": f"SELECT '{model}' FROM t\t----- bird -----\tshop"}
        if model in "ab":
            answers["9"] = f"SELECT broken {model}"
        (directory / f"{model}.json").write_text(json.dumps(answers))
    listed = [{"question_id": 7, "SQL": "SELECT 'f' FROM u"}]
    (directory / "f.json").write_text(json.dumps(listed))
    return directory


def test_predictions_in_file_order_and_shuffled(bird: Path, predictions: Path) -> None:
    first, second, third = load_bird(bird).questions
    found = read_predictions(predictions)
    assert [each.source for each in found.of(first)] == list("abcdef")
    assert found.of(first)[0].sql == "SELECT 'a' FROM t"
    shuffled = found.of(first, seed=3)
    assert shuffled == read_predictions(predictions).of(first, seed=3)
    assert sorted(each.source for each in shuffled) == list("abcdef")
    orders = {tuple(each.source for each in found.of(first, seed)) for seed in range(20)}
    assert len(orders) > 10
    assert found.covered([first, second, third]) == (first, second)
    assert [file.name for file in read_predictions(predictions / "a.json").files] == ["a"]


@pytest.mark.parametrize("content", ["[1]", '{"x": "SELECT 1"}', '{"7": 3}', "{", "3"])
def test_broken_predictions(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(InvalidDataset, match=r"bad\.json is no prediction file") as caught:
        read_predictions(tmp_path)
    assert caught.value.field == "replay"


def test_no_predictions(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataset, match=r"holds no \*\.json"):
        read_predictions(tmp_path)


def records_of(records: list[ReplayRecord], question: str, step: str) -> dict[str, str]:
    return {
        record.index: extract_sql(record.completion).sql or record.completion
        for record in records
        if (record.question, record.step) == (question, step)
    }


def test_candidates_and_corrections_come_from_different_files(
    bird: Path, predictions: Path
) -> None:
    questions = load_bird(bird).questions
    found = read_predictions(predictions)
    records = list(build_replay(questions, found, ReplayShape(3, 2), seed=None))
    assert records_of(records, "shop:7", "candidate") == {
        "1": "SELECT 'a' FROM t",
        "2": "SELECT 'b' FROM t",
        "3": "SELECT 'c' FROM t",
    }
    revisions = records_of(records, "shop:7", "revise")
    assert list(revisions) == ["1.1", "1.2", "2.1", "2.2", "3.1", "3.2"]
    assert [revisions["1.1"], revisions["1.2"], revisions["2.1"], revisions["2.2"]] == [
        "SELECT 'd' FROM t",
        "SELECT 'e' FROM t",
        "SELECT 'f' FROM u",
        "SELECT 'd' FROM t",
    ]
    few = records_of(records, "shop:9", "candidate")
    assert list(few.values()) == ["SELECT broken a", "SELECT broken b", "SELECT broken a"]
    assert records_of(records, "shop:9", "revise")["1.1"] == "SELECT broken b"
    assert not [record for record in records if record.question == "zoo:11"]


def test_what_no_file_holds_is_answered_neutrally(bird: Path, predictions: Path) -> None:
    found = read_predictions(predictions)
    records = list(build_replay(load_bird(bird).questions[:1], found, seed=None))
    by_step: dict[str, Any] = {
        record.step: json.loads(record.completion)
        for record in records
        if record.step in ("link", "unit_tests", "choose")
    }
    assert by_step["link"] == {"keywords": [], "tables": ["t"], "columns": []}
    assert by_step["unit_tests"]["tests"]
    assert by_step["choose"]["choice"] == 1
    assert "replayed" in by_step["choose"]["reason"]
    assert {record.stage for record in records} == set(REPLAYED_STAGES)


def test_a_written_replay_is_what_emulated_instances_read(
    bird: Path, predictions: Path, tmp_path: Path
) -> None:
    records = list(build_replay(load_bird(bird).questions, read_predictions(predictions)))
    path = tmp_path / "new" / "replay.jsonl"
    assert write_replay(records, path) == len(records)
    store = ReplayStore.load([path])
    assert len(store) == len(records)
    wanted = {"question": "shop:7", "stage": "self_correction", "step": "revise", "index": "2.1"}
    recorded = store.find(wanted)
    assert recorded is not None
    assert recorded.completion.startswith("```sql\nSELECT")


def test_with_statements_name_their_tables_only(bird: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"7": "WITH x AS (SELECT 1 FROM t) SELECT * FROM x JOIN u"}))
    records = list(build_replay(load_bird(bird).questions[:1], read_predictions(path)))
    assert json.loads(records[0].completion)["tables"] == ["u", "t"]


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match="candidates"):
        ReplayShape(candidates=0)
    with pytest.raises(ValueError, match="rounds"):
        ReplayShape(rounds=-1)
