"""What is known about a database's schema and content, as plain values that travel as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

SampleValue = str | int | float


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `primary_key` is its 1-based place in the key, 0 when it is not part of it.

    `title`, `description` and `value_description` come from BIRD's CSV files and may be empty.
    `samples` are its most frequent values among the rows that were read, the most frequent first.
    The statistics are over the same rows: how many are NULL, how many different values there are,
    the least and the greatest value, and the commonest shapes (`AAA-99`) of its texts. They are
    None or empty where they could not be read. `whole` says that every row was read.
    """

    name: str
    type: str = ""
    primary_key: int = 0
    not_null: bool = False
    title: str = ""
    description: str = ""
    value_description: str = ""
    samples: tuple[SampleValue, ...] = ()
    nulls: int | None = None
    distinct: int | None = None
    minimum: SampleValue | None = None
    maximum: SampleValue | None = None
    shapes: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns of a table that refer to columns of another, in matching order."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view. `rows` is None when counting was not possible in the time allowed.

    `hidden_columns`: it has columns besides those listed, which `SELECT *` does not return (`rank`
    of a full-text table). `inferred_keys` are foreign keys that names and values suggest but that
    nobody declared.
    """

    name: str
    columns: tuple[Column, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    rows: int | None = None
    view: bool = False
    inferred_keys: tuple[ForeignKey, ...] = ()
    hidden_columns: bool = False

    def column(self, name: str) -> Column | None:
        """The column of that name, whatever the case of its letters."""
        wanted = name.lower()
        return next((column for column in self.columns if column.name.lower() == wanted), None)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The key's columns in key order."""
        keyed = sorted((column.primary_key, column.name) for column in self.columns)
        return tuple(name for place, name in keyed if place > 0)


@dataclass(frozen=True, slots=True)
class Catalog:
    """A database as the prompts and the checks see it. `complete` is False after a time-out."""

    database: str
    tables: tuple[Table, ...]
    complete: bool = True

    def table(self, name: str) -> Table | None:
        """The table of that name, whatever the case of its letters."""
        wanted = name.lower()
        return next((table for table in self.tables if table.name.lower() == wanted), None)

    @property
    def rows(self) -> int:
        """Rows in all tables that could be counted."""
        return sum(table.rows or 0 for table in self.tables)

    def to_json(self) -> str:
        """The catalog as one line of JSON, the same for the same content."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Catalog:
        """The inverse of `to_json`."""
        data = json.loads(text)
        return cls(
            database=data["database"],
            tables=tuple(_table(item) for item in data["tables"]),
            complete=data["complete"],
        )

    def digest(self) -> str:
        """SHA-256 of the content, in hex."""
        return hashlib.sha256(self.to_json().encode("utf-8")).hexdigest()


def _table(data: dict[str, Any]) -> Table:
    return Table(
        **{
            **data,
            "columns": tuple(_column(item) for item in data["columns"]),
            "foreign_keys": _keys(data["foreign_keys"]),
            "inferred_keys": _keys(data.get("inferred_keys", ())),
        }
    )


def _column(data: dict[str, Any]) -> Column:
    lists = {name: tuple(data.get(name, ())) for name in ("samples", "shapes")}
    return Column(**{**data, **lists})


def _keys(items: Iterable[dict[str, Any]]) -> tuple[ForeignKey, ...]:
    return tuple(
        ForeignKey(tuple(item["columns"]), item["table"], tuple(item["references"]))
        for item in items
    )
