"""Published predictions: files that map question ids to the SQL one model wrote."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hexgen_celery.evaluation.questions import GoldQuestion, InvalidDataset

BIRD_SEPARATOR = "\t----- bird -----\t"
SQL_FIELDS = ("SQL", "sql", "pred_sql", "predicted_sql", "query")


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one file says about one question."""

    source: str
    sql: str


@dataclass(frozen=True, slots=True)
class PredictionFile:
    """One model's predictions by question id. `name` is the file's name without suffix."""

    name: str
    by_question: dict[int, str]


@dataclass(frozen=True, slots=True)
class Predictions:
    """Several models' predictions, in the order of their file names."""

    files: tuple[PredictionFile, ...]

    def covered(self, questions: Iterable[GoldQuestion]) -> tuple[GoldQuestion, ...]:
        """The questions that at least one file answers."""
        return tuple(each for each in questions if any(self._of(each)))

    def of(self, question: GoldQuestion, seed: int | None = None) -> list[Prediction]:
        """Every prediction for the question: by file name, or shuffled by `seed` and question."""
        found = list(self._of(question))
        if seed is not None:
            random.Random(f"{seed}:{question.key}").shuffle(found)
        return found

    def _of(self, question: GoldQuestion) -> Iterator[Prediction]:
        for file in self.files:
            sql = file.by_question.get(question.question_id)
            if sql is not None:
                yield Prediction(file.name, sql)


def read_predictions(directory: Path) -> Predictions:
    """Every `*.json` file of predictions in `directory`, or the one file it names.

    A file is an object `{"question_id": "SQL"}`, where the SQL may be followed by BIRD's separator
    and the database, or a list of objects with `question_id` and `SQL`.

    Raises:
        InvalidDataset: if there is no such file, or one is not of this form.
    """
    paths = sorted(directory.glob("*.json")) if directory.is_dir() else [directory]
    if not paths:
        raise InvalidDataset(
            f"{directory} holds no *.json file",
            hint="Name a directory of prediction files",
            field="replay",
        )
    return Predictions(tuple(PredictionFile(path.stem, _read(path)) for path in paths))


def _read(path: Path) -> dict[int, str]:
    try:
        return {int(key): _sql(value) for key, value in _pairs(json.loads(path.read_text("utf-8")))}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidDataset(
            f"{path} is no prediction file: {error!r}",
            hint='It must be {"question_id": "SQL", …} or a list of objects with both',
            field="replay",
        ) from error


def _pairs(content: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(content, dict):
        yield from content.items()
        return
    for item in content:
        yield item["question_id"], next(item[name] for name in SQL_FIELDS if name in item)


def _sql(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"SQL must be a text, not {type(value).__name__}")
    return value.split(BIRD_SEPARATOR)[0]
