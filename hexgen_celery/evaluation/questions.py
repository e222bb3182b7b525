"""Questions with a known right answer, whichever set they come from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hexgen_celery.errors import HexgenError
from hexgen_celery.sql.execution import DatabaseFile
from hexgen_celery.sql.readonly import is_wal_file

UNRATED = "unrated"


class InvalidDataset(HexgenError):
    """Raised when a directory holds no question set, or one that cannot be read."""

    code = "invalid_dataset"


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """One question. `difficulty` is the set's own word, or `unrated`."""

    question_id: int
    database: str
    question: str
    gold: str
    evidence: str = ""
    difficulty: str = UNRATED

    @property
    def key(self) -> str:
        """The name of the question in replays and reports."""
        return f"{self.database}:{self.question_id}"

    @property
    def ordered(self) -> bool:
        """Whether Spider compares the order of rows: its rule is the words in the gold text."""
        return "order by" in self.gold.lower()


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Questions and the database files they are about. `source` is the file they came from."""

    source: Path
    questions: tuple[GoldQuestion, ...]
    databases: dict[str, Path]

    def files(self) -> dict[str, DatabaseFile]:
        """How to open each database; nobody writes a published one while it is read."""
        return {
            name: DatabaseFile(str(path), immutable=is_wal_file(str(path)))
            for name, path in self.databases.items()
        }


def select(
    questions: Iterable[GoldQuestion], database: str | None = None, limit: int | None = None
) -> tuple[GoldQuestion, ...]:
    """The questions about `database` (all if None), the first `limit` of them (all if None)."""
    chosen = [each for each in questions if database is None or each.database == database]
    return tuple(chosen[:limit])


def read_objects(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a question file.

    Raises:
        InvalidDataset: if it cannot be read, or is not a list of objects.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidDataset(
            f"{path} cannot be read: {error}", hint="It must be UTF-8 JSON", field="path"
        ) from error
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise InvalidDataset(f"{path} is not a list of questions", hint="Check it", field="path")
    return content


def field_of(item: dict[str, Any], names: Sequence[str], path: Path, number: int) -> Any:
    """The first of `names` that the question has.

    Raises:
        InvalidDataset: if it has none of them.
    """
    for name in names:
        if name in item:
            return item[name]
    raise InvalidDataset(
        f"question {number} of {path} has no field {names[0]!r}",
        hint=f"It needs one of: {', '.join(names)}",
        field=names[0],
    )


def find_file(directory: Path, names: Sequence[str]) -> Path | None:
    """The first of `names` in the directory or up to two levels below it, the nearest first."""
    for level in _levels(directory):
        for name in names:
            for place in level:
                if (place / name).is_file():
                    return place / name
    return None


def find_databases(directory: Path, names: Sequence[str]) -> dict[str, Path]:
    """`<name>/<database>/<database>.sqlite` for the first of `names` that is a directory."""
    for name in names:
        root = directory / name
        if root.is_dir():
            files = (child / f"{child.name}.sqlite" for child in sorted(root.iterdir()))
            return {file.stem: file for file in files if file.is_file()}
    return {}


def _levels(directory: Path) -> Iterator[list[Path]]:
    level = [directory]
    for _ in range(3):
        yield level
        level = sorted(child for place in level for child in place.iterdir() if child.is_dir())


def question_set(
    source: Path,
    every: Sequence[GoldQuestion],
    database: str | None,
    limit: int | None,
    directories: Sequence[str],
) -> QuestionSet:
    """The chosen questions with their database files, which lie in one of `directories`.

    Raises:
        InvalidDataset: if no question is left, or a database file is missing.
    """
    questions = select(every, database, limit)
    if not questions:
        known = ", ".join(sorted({each.database for each in every}))
        raise InvalidDataset(
            f"{source} has no question about {database!r}",
            hint=f"Choose from: {known}",
            field="db",
        )
    databases = find_databases(source.parent, directories)
    used = sorted({each.database for each in questions})
    missing = [name for name in used if name not in databases]
    if missing:
        raise InvalidDataset(
            f"no file for the databases {', '.join(missing)}",
            hint="Unpack the databases beside the questions, or choose others with --db",
            field="db",
        )
    return QuestionSet(source, questions, {name: databases[name] for name in used})
