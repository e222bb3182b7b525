"""The one way to reach the store: SQLite with a write-ahead log, or PostgreSQL."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from hexgen_celery.errors import InvalidSettings, MissingPrerequisite, UnusablePath
from hexgen_celery.settings import Settings
from hexgen_celery.store.failures import named_failure
from hexgen_celery.store.sqlite_trace import DEFAULT_FILE

SQLITE, POSTGRES = "sqlite", "postgresql"
_CONNECT_SECONDS = 5
_SILENT_SECONDS = 30
_PROBE_SECONDS = 10


def store_url(settings: Settings) -> URL:
    """Where the store is; a SQLite path is absolute.

    Raises:
        InvalidSettings: `store.url` is no URL of a database that is supported.
    """
    given = settings.store.url
    text = given.get_secret_value() if given else None
    if text is None:
        return URL.create(SQLITE, database=str(settings.up.directory.absolute() / DEFAULT_FILE))
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise _unsupported("it is no URL") from error
    if url.get_backend_name() == POSTGRES:
        return url.set(drivername=f"{POSTGRES}+psycopg")
    if url.get_backend_name() != SQLITE:
        raise _unsupported(f"it names {url.get_backend_name()}")
    if not url.database or url.database == ":memory:":
        raise _unsupported("it names no file")
    return url.set(database=str(Path(url.database).absolute()))


def place_of(url: URL) -> str:
    """The store for a reader: its URL without the password."""
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def sqlite_file(url: URL) -> Path | None:
    """The file of a SQLite store; None for a server."""
    return Path(str(url.database)) if url.get_backend_name() == SQLITE else None


def open_store(settings: Settings, *, writing: bool) -> Engine:
    """An engine of the store; it connects when it is used. Thread-safe.

    `writing` makes the directory of a SQLite file, and each of its transactions one that writes.

    Raises:
        InvalidSettings: `store.url` cannot be used.
        MissingPrerequisite: it names PostgreSQL, whose client is not installed.
        UnusablePath: the directory of the SQLite file cannot be made.
    """
    url = store_url(settings)
    file = sqlite_file(url)
    if file is None:
        return _postgres(url)
    if writing:
        _make_directory(file.parent)
    return _sqlite(url, settings.store.busy_timeout_seconds, writing=writing)


@contextlib.contextmanager
def naming_a_lost_store(engine: Engine) -> Iterator[None]:
    """Raise what a reader can act on where the database is away, locked or has other tables.

    What is wrong with a statement or a value is raised as it is.

    Raises:
        StoreUnavailable: the database cannot be reached, is locked, full or damaged.
        StoreOutdated: a table or column is missing.
    """
    try:
        yield
    except (DBAPIError, PoolTimeout) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        named = named_failure(cause or error, place_of(engine.url))
        if named is None:
            raise
        raise named from error


def _postgres(url: URL) -> Engine:
    if importlib.util.find_spec("psycopg") is None:
        raise MissingPrerequisite(
            "the store is PostgreSQL, whose client is not installed",
            field="store.url",
            hint="pip install 'hexgen-celery[postgres]'",
        )
    return create_engine(
        url,
        pool_pre_ping=True,
        pool_size=2,
        connect_args={k: v for k, v in _POSTGRES_CONNECTION.items() if k not in url.query},
    )


_POSTGRES_CONNECTION: dict[str, str | int] = {
    "application_name": "hexgen",
    "connect_timeout": _CONNECT_SECONDS,
    # A host that vanishes closes nothing: the kernel's own patience is up to two hours, in which
    # Redis would forget what waits to be recorded.
    "keepalives_idle": _PROBE_SECONDS,
    "keepalives_interval": _PROBE_SECONDS,
    "keepalives_count": _SILENT_SECONDS // _PROBE_SECONDS,
    "tcp_user_timeout": 1000 * _SILENT_SECONDS,
}


def _sqlite(url: URL, busy_seconds: float, *, writing: bool) -> Engine:
    engine = create_engine(url, connect_args={"timeout": busy_seconds, "check_same_thread": False})
    begin = "BEGIN IMMEDIATE" if writing else "BEGIN"

    def configure(connection: Any, _record: object) -> None:
        """Transactions are ours: Python's would leave schema changes out of them."""
        connection.isolation_level = None
        if writing:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")

    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", configure)
    event.listen(engine, "begin", start)
    _follow_the_name(engine, Path(str(url.database)))
    return engine


def _follow_the_name(engine: Engine, file: Path) -> None:
    """Connect anew when another file has the name: what goes into one that was moved is lost."""

    def remember(_connection: object, record: Any) -> None:
        record.info["file"] = _identity(file)

    def compare(_connection: object, record: Any, _proxy: object) -> None:
        if record.info["file"] != _identity(file):
            raise DisconnectionError(f"{file} is another file now")

    event.listen(engine, "connect", remember)
    event.listen(engine, "checkout", compare)


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnusablePath(
            f"the directory of the store {path} cannot be made: {error.strerror}",
            field="store.url",
            hint="name another file in store.url (HEXGEN_STORE__URL)",
        ) from error


def _unsupported(problem: str) -> InvalidSettings:
    return InvalidSettings(
        f"store.url cannot be used: {problem}",
        field="store.url",
        hint="write sqlite:///path/store.sqlite or postgresql://user:password@host:port/name",
    )
