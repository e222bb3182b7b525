"""Spider's dev questions: `dev.json` beside `database/<name>/<name>.sqlite`."""

from __future__ import annotations

from pathlib import Path

from hexgen_celery.evaluation.questions import (
    GoldQuestion,
    InvalidDataset,
    QuestionSet,
    field_of,
    find_file,
    question_set,
    read_objects,
)

QUESTION_FILES = ("dev.json",)
DATABASE_DIRECTORIES = ("database", "test_database")


def load_spider(
    directory: Path, database: str | None = None, limit: int | None = None
) -> QuestionSet:
    """Spider's questions in `directory`; a question's id is its place in the file.

    Raises:
        InvalidDataset: if there is no question file, it cannot be read, nothing is left after the
            choice of `database`, or a database file is missing.
    """
    path = find_file(directory, QUESTION_FILES) if directory.is_dir() else None
    if path is None:
        raise InvalidDataset(
            f"{directory} holds no dev.json", hint="Name Spider's directory", field="path"
        )
    every = [
        GoldQuestion(
            question_id=number,
            database=str(field_of(item, ("db_id",), path, number)),
            question=str(field_of(item, ("question",), path, number)),
            gold=str(field_of(item, ("query",), path, number)),
        )
        for number, item in enumerate(read_objects(path))
    ]
    return question_set(path, every, database, limit, DATABASE_DIRECTORIES)
