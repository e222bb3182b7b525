"""Column descriptions in BIRD's form: `database_description/<table>.csv`, in whatever encoding."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")
DIRECTORY_NAME = "database_description"
MAX_FILE_BYTES = 4_000_000
MAX_FIELD_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """What a description file says about one column."""

    title: str = ""
    description: str = ""
    value_description: str = ""


@dataclass(frozen=True, slots=True)
class Descriptions:
    """Descriptions by table and column; look-ups ignore case and surrounding space."""

    by_column: dict[tuple[str, str], ColumnDescription] = field(default_factory=dict)

    def get(self, table: str, column: str) -> ColumnDescription:
        """The description of a column, empty when there is none."""
        return self.by_column.get((_key(table), _key(column)), ColumnDescription())


def read_descriptions(directory: Path | None) -> Descriptions:
    """Every description in `directory`; none when it does not exist.

    Raises:
        OSError: if a file in it cannot be read, or is no CSV file.
    """
    found: dict[tuple[str, str], ColumnDescription] = {}
    if directory is not None and directory.is_dir():
        for path in sorted(filter(Path.is_file, directory.glob("*.csv"))):
            for column, description in _read_file(path):
                found.setdefault((_key(path.stem), _key(column)), description)
    return Descriptions(found)


def _read_file(path: Path) -> Iterator[tuple[str, ColumnDescription]]:
    try:
        yield from _read_rows(path)
    except csv.Error as error:
        raise OSError(f"{path} is not a CSV file: {error}") from error


def _read_rows(path: Path) -> Iterator[tuple[str, ColumnDescription]]:
    with path.open("rb") as file:
        text = _decode(file.read(MAX_FILE_BYTES)).replace("\0", "")
    rows = csv.DictReader(io.StringIO(text, newline=""), restkey="more", restval="")
    if rows.fieldnames is not None:
        rows.fieldnames = [name.strip() for name in rows.fieldnames]
    for row in rows:
        column = _field(row, "original_column_name")
        if column:
            yield (
                column,
                ColumnDescription(
                    title=_field(row, "column_name"),
                    description=_field(row, "column_description"),
                    value_description=_field(row, "value_description"),
                ),
            )


def _decode(raw: bytes) -> str:
    for encoding in ENCODINGS:
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise AssertionError("latin-1 decodes every byte")


def _field(row: dict[str, str], name: str) -> str:
    return (row.get(name) or "").strip()[:MAX_FIELD_CHARS]


def _key(name: str) -> str:
    return name.strip().lower()
