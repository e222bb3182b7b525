"""One question's events from a SQLite store, by the standard library alone.

Why: `hexgen trace ID` asks once and ends; importing SQLAlchemy takes many times as long as asking.
What a process asks again and again, and PostgreSQL, are read by `reading.StoreReader`.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hexgen_celery.settings import Settings
from hexgen_celery.store.events import (
    DECISION_COLUMNS,
    EXECUTION_COLUMNS,
    REQUEST_COLUMNS,
    WORKFLOW_COLUMNS,
    stored_events,
)
from hexgen_celery.store.failures import named_failure

if TYPE_CHECKING:
    from hexgen_celery.workflows.definition import Json

DEFAULT_FILE = "store.sqlite"
_JSON = ("facts", "reasons")
_PLAIN_URL = re.compile(r"sqlite(?:\+pysqlite)?:///(?P<path>[^?%]+)")


def plain_file(settings: Settings) -> Path | None:
    """The file of a SQLite store; None for a server, and for a URL with more than a path in it."""
    if settings.store.url is None:
        return settings.up.directory.absolute() / DEFAULT_FILE
    match = _PLAIN_URL.fullmatch(settings.store.url.get_secret_value())
    path = match["path"] if match else ":memory:"
    return None if path == ":memory:" else Path(path).absolute()


def sqlite_events(file: Path, busy_seconds: float, workflow_id: str) -> list[Json]:
    """What happened to a question, oldest first; nothing where it, or the file, is not there.

    Raises:
        StoreUnavailable: the file cannot be read, or stays locked for `busy_seconds`.
        StoreOutdated: a table or column is missing.
    """
    if not file.exists():
        return []
    with _reading(file, busy_seconds) as connection:
        found = _rows(connection, "workflows", "id", WORKFLOW_COLUMNS, workflow_id)
        if not found:
            return []
        requests, executions, decisions = (
            _rows(connection, table, "workflow_id", columns, workflow_id)
            for table, columns in (
                ("requests", REQUEST_COLUMNS),
                ("executions", EXECUTION_COLUMNS),
                ("decisions", DECISION_COLUMNS),
            )
        )
    return stored_events(found[0], requests, executions, decisions)


@contextlib.contextmanager
def _reading(file: Path, busy_seconds: float) -> Iterator[sqlite3.Connection]:
    """One transaction, so that all rows are of one moment."""
    try:
        with contextlib.closing(sqlite3.connect(file, busy_seconds)) as connection:
            connection.isolation_level = None
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN")
            yield connection
    except sqlite3.Error as error:
        named = named_failure(error, f"sqlite:///{file}")
        if named is None:
            raise
        raise named from error


def _rows(
    connection: sqlite3.Connection, table: str, key: str, columns: tuple[str, ...], name: str
) -> list[Json]:
    """Rows in the order of their keys."""
    order = ", ".join(column for column in ("node", "attempt") if column in columns) or key
    found = connection.execute(
        f"SELECT {', '.join(columns)} FROM {table} WHERE {key} = ? ORDER BY {order}", (name,)
    )
    return [{column: _value(column, row[column]) for column in columns} for row in found]


def _value(column: str, stored: object) -> object:
    return json.loads(stored) if column in _JSON and isinstance(stored, str) else stored
