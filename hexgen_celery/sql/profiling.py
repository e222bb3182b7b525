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
        rows = self._connection.execute(
            "SELECT name, type = 'view' FROM sqlite_master WHERE type IN ('table', 'view')"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
        ).fetchall()
        for done, (name, view) in enumerate(rows):
            progress(name, done, len(rows))
            table = self._attempt(partial(self._view if view else self._table, name))
            if table is not None:
                yield table
        progress("", len(rows), len(rows))

    def _view(self, name: str) -> Table:
        columns = tuple(self._column(name, row) for row in self._table_info(name))
        return Table(name=name, columns=columns, view=True)

    def _table(self, name: str) -> Table:
        rows = self._count(name)
        whole = rows is not None and rows <= self._bounds.statistics.rows
        columns = tuple(
            self._with_statistics(name, self._column(name, row), whole)
            for row in self._table_info(name)
        )
        return Table(name=name, columns=columns, foreign_keys=self._foreign_keys(name), rows=rows)

    def _with_statistics(self, table: str, column: Column, whole: bool) -> Column:
        statistics = self._statistics.read(table, column.name)
        return replace(column, **asdict(statistics), whole=whole)

    def inclusion(self, table: str, column: str, other: str, key: str) -> float | None:
        """The share of the column's different values (the first so many) that the key has too."""
        query = (
            f"SELECT avg(v IN (SELECT {quote_always(key)} FROM {quote_always(other)})) FROM"
            f" (SELECT DISTINCT {quote_always(column)} AS v FROM {quote_always(table)}"
            f" WHERE v IS NOT NULL LIMIT {self._bounds.key_values})"
        )
        row = self._attempt(lambda: self._connection.execute(query).fetchone())
        return None if row is None or row[0] is None else float(row[0])

    def _table_info(self, table: str) -> list[tuple[str, str, bool, int]]:
        rows = self._connection.execute(f"PRAGMA table_info({quote_always(table)})").fetchall()
        return [(row[1], row[2], bool(row[3]), row[5]) for row in rows]

    def _column(self, table: str, info: tuple[str, str, bool, int]) -> Column:
        name, declared, not_null, place = info
        text = self._descriptions.get(table, name)
        return Column(
            name=name,
            type=declared,
            primary_key=place,
            not_null=not_null,
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
        keyed = sorted((place, name) for name, _, _, place in self._table_info(table) if place)
        return tuple(name for _, name in keyed)
