"""Reading a database's schema, sizes and sample values into a catalog, in bounded time."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TypeVar

from hexgen_celery.sql.catalog import Catalog, Column, ForeignKey, Table
from hexgen_celery.sql.catalog_keys import with_inferred_keys
from hexgen_celery.sql.descriptions import Descriptions
from hexgen_celery.sql.execution import DatabaseFile
from hexgen_celery.sql.identifiers import quote_always
from hexgen_celery.sql.profiling_statistics import StatisticsBounds, StatisticsReader
from hexgen_celery.sql.readonly import SQLITE_LIMITS, open_read_only

PROGRESS_STEPS = 10_000

# Kinds of columns in SQLite's `PRAGMA table_xinfo`; ordinary ones are 0, stored generated ones 3.
_HIDDEN, _VIRTUAL = 1, 2

T = TypeVar("T")

Progress = Callable[[str, int, int], None]
"""Called with a table's name, how many tables are done and how many there are."""


def no_progress(_table: str, _done: int, _total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class ProfilingBounds:
    """How much is read: seconds in all, so much of each column, and so many different values of
    one to compare with another table's key."""

    seconds: float = 60.0
    statistics: StatisticsBounds = field(default_factory=StatisticsBounds)
    key_values: int = 1_000


def profile_database(
    file: DatabaseFile,
    name: str,
    descriptions: Descriptions,
    bounds: ProfilingBounds | None = None,
    progress: Progress = no_progress,
) -> Catalog:
    """The catalog of a database, read through the same read-only path as a model's SQL.

    What cannot be read (a broken view, content after the time is up) is left out.

    Raises:
        sqlite3.DatabaseError: if the file is no readable database.
    """
    bounds = bounds or ProfilingBounds()
    with closing(open_read_only(file.path, file.immutable)) as connection:
        # A hostile file must not be able to make the profiler allocate or loop without end.
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, SQLITE_LIMITS[sqlite3.SQLITE_LIMIT_LENGTH])
        reader = _Reader(connection, bounds, descriptions)
        catalog = Catalog(database=name, tables=tuple(reader.tables(progress)))
        catalog = with_inferred_keys(catalog, reader.inclusion)
    return replace(catalog, complete=not reader.timed_out)


@dataclass(frozen=True, slots=True)
class _ColumnInfo:
    """A column as SQLite describes it. `place` in the primary key is 1-based, 0 outside of it;
    `computed`: its values are computed by the table's own expression whenever they are read;
    `hidden`: a virtual table's, which `SELECT *` does not return."""

    name: str
    declared: str
    not_null: bool
    place: int
    computed: bool
    hidden: bool


class _Reader:
    """One pass over one open database."""

    def __init__(
        self, connection: sqlite3.Connection, bounds: ProfilingBounds, descriptions: Descriptions
    ) -> None:
        self._connection = connection
        self._bounds = bounds
        self._descriptions = descriptions
        self._deadline = time.monotonic() + bounds.seconds
        self.timed_out = False
        self._computed: set[tuple[str, str]] = set()
        self._statistics = StatisticsReader(connection, bounds.statistics, self._attempt)
        connection.set_progress_handler(self._is_late, PROGRESS_STEPS)

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _attempt(self, read: Callable[[], T]) -> T | None:
        """What `read` gives, or None: what cannot be read is worth less than the catalog."""
        try:
            return read()
        except (sqlite3.OperationalError, sqlite3.DataError):
            self.timed_out = self.timed_out or self._is_late()
            return None

    def tables(self, progress: Progress) -> Iterator[Table]:
        rows = self._names()
        for done, (name, view) in enumerate(rows):
            progress(name, done, len(rows))
            table = self._attempt(partial(self._view if view else self._table, name))
            if table is not None:
                yield table
        progress("", len(rows), len(rows))

    def _names(self) -> list[tuple[str, bool]]:
        """Names of tables and views, and whether it is a view; without the inner tables that
        modules such as FTS5 keep their content in."""
        rows = self._connection.execute(
            "SELECT name, type = 'view' FROM sqlite_master WHERE type IN ('table', 'view')"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
        ).fetchall()
        # SQLite before 3.37 has no such list and answers nothing: there the inner tables stay.
        listed = self._connection.execute("PRAGMA table_list").fetchall()
        inner = {row[1] for row in listed if row[0] == "main" and row[2] == "shadow"}
        return [(name, bool(view)) for name, view in rows if name not in inner]

    def _view(self, name: str) -> Table:
        columns = tuple(self._column(name, known) for known in self._column_infos(name))
        return Table(name=name, columns=columns, view=True)

    def _table(self, name: str) -> Table:
        rows = self._count(name)
        whole = rows is not None and rows <= self._bounds.statistics.rows
        infos = self._column_infos(name)
        columns = tuple(
            self._with_statistics(known, name, self._column(name, known), whole)
            for known in infos
            if not known.hidden
        )
        return Table(
            name=name,
            columns=columns,
            foreign_keys=self._foreign_keys(name),
            rows=rows,
            hidden_columns=any(known.hidden for known in infos),
        )

    def _with_statistics(
        self, known: _ColumnInfo, table: str, column: Column, whole: bool
    ) -> Column:
        # No time limit ends one call of a function, so an expression of the file's is never run.
        if known.computed:
            self._computed.add((table, column.name))
            return column
        statistics = self._statistics.read(table, column.name)
        return replace(column, **asdict(statistics), whole=whole)

    def inclusion(self, table: str, column: str, other: str, key: str) -> float | None:
        """The share of the column's different values (the first so many) that the key has too."""
        if not self._computed.isdisjoint(((table, column), (other, key))):
            return None
        query = (
            f"SELECT avg(v IN (SELECT {quote_always(key)} FROM {quote_always(other)})) FROM"
            f" (SELECT DISTINCT {quote_always(column)} AS v FROM {quote_always(table)}"
            f" WHERE v IS NOT NULL LIMIT {self._bounds.key_values})"
        )
        row = self._attempt(lambda: self._connection.execute(query).fetchone())
        return None if row is None or row[0] is None else float(row[0])

    def _column_infos(self, table: str) -> list[_ColumnInfo]:
        rows = self._connection.execute(f"PRAGMA table_xinfo({quote_always(table)})").fetchall()
        return [
            _ColumnInfo(name, declared, bool(not_null), place, kind == _VIRTUAL, kind == _HIDDEN)
            for _, name, declared, not_null, _, place, kind in rows
        ]

    def _column(self, table: str, known: _ColumnInfo) -> Column:
        text = self._descriptions.get(table, known.name)
        return Column(
            name=known.name,
            type=known.declared,
            primary_key=known.place,
            not_null=known.not_null,
            title=text.title,
            description=text.description,
            value_description=text.value_description,
        )

    def _count(self, table: str) -> int | None:
        query = f"SELECT count(*) FROM {quote_always(table)}"
        row = self._attempt(lambda: self._connection.execute(query).fetchone())
        return None if row is None else int(row[0])

    def _foreign_keys(self, table: str) -> tuple[ForeignKey, ...]:
        rows = self._connection.execute(
            f"PRAGMA foreign_key_list({quote_always(table)})"
        ).fetchall()
        grouped: dict[int, list[tuple[int, str, str, str | None]]] = {}
        for key, place, target, source, target_column, *_ in rows:
            grouped.setdefault(key, []).append((place, target, source, target_column))
        return tuple(self._foreign_key(sorted(grouped[key])) for key in sorted(grouped))

    def _foreign_key(self, parts: list[tuple[int, str, str, str | None]]) -> ForeignKey:
        target = parts[0][1]
        named = tuple(part[3] for part in parts if part[3] is not None)
        return ForeignKey(
            columns=tuple(part[2] for part in parts),
            table=target,
            references=named or self._primary_key(target),
        )

    def _primary_key(self, table: str) -> tuple[str, ...]:
        keyed = sorted((each.place, each.name) for each in self._column_infos(table) if each.place)
        return tuple(name for _, name in keyed)
