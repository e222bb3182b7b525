"""Writes the demo in BIRD's official layout, with recorded answers beside it.

dev.json                                        questions, gold SQL, difficulty
dev_databases/roastery/roastery.sqlite          the database
dev_databases/roastery/database_description/    its columns, described
replay/roastery.jsonl                           what an emulated model answers
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from hexgen_celery.demo.answers import demo_replay
from hexgen_celery.demo.questions import DATABASE, DemoQuestion, read_questions
from hexgen_celery.demo.rows import INVALID_REVIEW, INVALID_UTF8, demo_rows
from hexgen_celery.evaluation.questions import GoldQuestion
from hexgen_celery.evaluation.replay import write_replay


@dataclass(frozen=True, slots=True)
class DemoFiles:
    """Where the demo was written, and its questions in the order of difficulty and number."""

    directory: Path
    database: Path
    questions_file: Path
    replay: Path
    questions: tuple[GoldQuestion, ...]


def build_demo(directory: Path, seed: int = 7) -> DemoFiles:
    """Write the demo into `directory`, replacing an earlier one; the same for the same seed.

    Raises:
        OSError: if the directory cannot be written.
    """
    home = directory / "dev_databases" / DATABASE
    home.mkdir(parents=True, exist_ok=True)
    database = home / f"{DATABASE}.sqlite"
    _write_database(database, seed)
    _write_descriptions(home / "database_description")
    questions = read_questions()
    questions_file = directory / "dev.json"
    _write_questions(questions_file, questions)
    replay = directory / "replay" / f"{DATABASE}.jsonl"
    write_replay(demo_replay(questions), replay)
    gold = tuple(each.gold_question for each in questions)
    return DemoFiles(directory, database, questions_file, replay, gold)


def data_directory() -> Traversable:
    """The schema, descriptions and questions that come with the package."""
    return files("hexgen_celery.demo") / "data"


def _write_database(path: Path, seed: int) -> None:
    """Build beside the target and move there, so that no reader ever sees half a database."""
    handle, name = tempfile.mkstemp(prefix=".building-", dir=path.parent)
    os.close(handle)
    building = Path(name)
    try:
        with closing(sqlite3.connect(building)) as connection:
            _fill(connection, seed)
        building.chmod(0o644)
        building.replace(path)
    finally:
        building.unlink(missing_ok=True)


def _fill(connection: sqlite3.Connection, seed: int) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.executescript((data_directory() / "schema.sql").read_text(encoding="utf-8"))
    for table, rows in demo_rows(seed):
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    connection.execute(
        "UPDATE review SET comment = CAST(? AS TEXT) WHERE review_id = ?",
        (INVALID_UTF8, INVALID_REVIEW),
    )
    connection.commit()


def _write_descriptions(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    for source in (data_directory() / "database_description").iterdir():
        (directory / source.name).write_bytes(source.read_bytes())


def _write_questions(path: Path, questions: Iterable[DemoQuestion]) -> None:
    items = [each.bird_item for each in questions]
    path.write_text(json.dumps(items, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
