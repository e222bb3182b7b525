"""BIRD's question sets: the official dev and train layouts and mini-dev."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from hexgen_celery.evaluation.questions import (
    UNRATED,
    GoldQuestion,
    InvalidDataset,
    QuestionSet,
    field_of,
    find_file,
    question_set,
    read_objects,
)

Subset = Literal["auto", "dev", "mini", "train"]

FILES: dict[Subset, tuple[str, ...]] = {
    "auto": ("dev.json", "mini_dev_sqlite.json", "train.json"),
    "dev": ("dev.json",),
    "mini": ("mini_dev_sqlite.json",),
    "train": ("train.json",),
}
DATABASE_DIRECTORIES = ("dev_databases", "train_databases", "databases")


def load_bird(
    directory: Path,
    database: str | None = None,
    limit: int | None = None,
    subset: Subset = "auto",
) -> QuestionSet:
    """BIRD's questions in `directory`, or up to two levels below it.

    Raises:
        InvalidDataset: if there is no question file, it cannot be read, nothing is left after the
            choice of `database`, or a database file is missing.
    """
    if not directory.is_dir():
        raise InvalidDataset(f"{directory} is no directory", hint="Check the path", field="path")
    path = find_file(directory, FILES[subset])
    if path is None:
        raise InvalidDataset(
            f"{directory} holds none of {', '.join(FILES[subset])}",
            hint="Name the directory that BIRD's archive was unpacked to",
            field="path",
        )
    items = read_objects(path)
    every = [_question(item, path, number) for number, item in enumerate(items)]
    return question_set(path, every, database, limit, DATABASE_DIRECTORIES)


def _question(item: dict[str, Any], path: Path, number: int) -> GoldQuestion:
    return GoldQuestion(
        question_id=int(item.get("question_id", number)),
        database=str(field_of(item, ("db_id",), path, number)),
        question=str(field_of(item, ("question",), path, number)),
        gold=str(field_of(item, ("SQL", "sql", "query"), path, number)),
        evidence=str(item.get("evidence") or ""),
        difficulty=str(item.get("difficulty") or UNRATED),
    )
