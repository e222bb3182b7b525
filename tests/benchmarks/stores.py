"""Stores for benchmarks: a SQLite file and a PostgreSQL server of their own, with their tables."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy import Engine

from hexgen_celery.settings import Settings
from hexgen_celery.store.engine import open_store
from hexgen_celery.store.schema import migrate
from tests.benchmarks.rows import BenchmarkSkipped
from tests.integration.store.postgres import PostgresServer, binaries

NewStore = Callable[[], Settings]
"""Settings of a new store with tables and no rows."""


@contextlib.contextmanager
def sqlite_stores(settings: Settings) -> Iterator[NewStore]:
    """New SQLite files, as often as it is called."""
    with tempfile.TemporaryDirectory(prefix="hexgen-bench-") as directory:
        numbers = iter(range(1000))

        def new() -> Settings:
            return _migrated(settings, f"sqlite:///{Path(directory) / f'{next(numbers)}.sqlite'}")

        yield new


@contextlib.contextmanager
def postgres_stores(settings: Settings) -> Iterator[NewStore]:
    """New databases on one PostgreSQL server.

    Raises:
        BenchmarkSkipped: there are no server programs.
    """
    programs = binaries()
    if programs is None:
        raise BenchmarkSkipped("no PostgreSQL server programs (Debian: postgresql)")
    with PostgresServer(programs) as server:
        numbers = iter(range(1000))

        def new() -> Settings:
            return _migrated(settings, server.create(f"bench{next(numbers)}"))

        yield new


def stores_of(kind: str, settings: Settings) -> contextlib.AbstractContextManager[NewStore]:
    """Stores of one kind, `sqlite` or `postgres`."""
    return sqlite_stores(settings) if kind == "sqlite" else postgres_stores(settings)


@contextlib.contextmanager
def engine_of(settings: Settings) -> Iterator[Engine]:
    """A writing engine of the store in `settings`."""
    engine = open_store(settings, writing=True)
    yield engine
    engine.dispose()


def _migrated(settings: Settings, url: str) -> Settings:
    store = settings.store.model_copy(update={"url": SecretStr(url)})
    there = settings.model_copy(update={"store": store})
    with engine_of(there) as engine:
        migrate(engine)
    return there
