"""A trace read by the standard library alone is the one that the store's own reader gives."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import SecretStr

from hexgen_celery.settings import Settings, StoreSettings
from hexgen_celery.store.engine import open_store
from hexgen_celery.store.errors import StoreOutdated, StoreUnavailable
from hexgen_celery.store.models import Base
from hexgen_celery.store.reading import StoreReader
from hexgen_celery.store.sqlite_trace import plain_file, sqlite_events
from hexgen_celery.store.writing import StoreWriter
from tests.unit.store.question_samples import DEPLOYMENT, question

AT = 1_700_000_000.0
BUSY_SECONDS = 0.05


def _at(url: str) -> Settings:
    return Settings(store=StoreSettings(url=SecretStr(url)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def reader(file: Path) -> Iterator[StoreReader]:
    """Of a store with two questions."""
    engine = open_store(_at(f"sqlite:///{file}"), writing=True)
    Base.metadata.create_all(engine)
    StoreWriter(engine).write([question("one", AT, requests=3), question("two", AT)])
    yield StoreReader(engine, DEPLOYMENT)
    engine.dispose()


def test_the_events_are_those_of_the_reader(reader: StoreReader, file: Path) -> None:
    found = reader.question("one")
    assert found is not None
    events = sqlite_events(file, BUSY_SECONDS, "one")
    assert events == found.events
    assert {event["event"] for event in events} >= {"started", "sent", "done", "finished"}


def test_what_is_not_there_has_no_events(reader: StoreReader, file: Path) -> None:
    assert sqlite_events(file, BUSY_SECONDS, "three") == []
    absent = file.with_name("absent.sqlite")
    assert sqlite_events(absent, BUSY_SECONDS, "one") == []
    assert not absent.exists()


def test_a_store_without_a_table_is_outdated(reader: StoreReader, file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE decisions")
    with pytest.raises(StoreOutdated, match="decisions"):
        sqlite_events(file, BUSY_SECONDS, "one")


def test_a_file_that_is_no_store_is_unavailable(file: Path) -> None:
    file.write_bytes(b"no database at all, " * 100)
    with pytest.raises(StoreUnavailable, match="not a database"):
        sqlite_events(file, BUSY_SECONDS, "one")


def test_a_locked_file_is_unavailable(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("CREATE TABLE workflows (id)")
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable, match="locked"):
            sqlite_events(file, BUSY_SECONDS, "one")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:////var/lib/hexgen.sqlite", "/var/lib/hexgen.sqlite"),
        ("sqlite+pysqlite:////var/lib/hexgen.sqlite", "/var/lib/hexgen.sqlite"),
        ("sqlite:///here.sqlite", str(Path("here.sqlite").absolute())),
        ("sqlite:///:memory:", None),
        ("sqlite:///file.sqlite?timeout=3", None),
        ("sqlite:///with%20space.sqlite", None),
        ("sqlite://", None),
        ("postgresql://user:secret@host:5432/name", None),
        ("no url", None),
    ],
)
def test_only_a_plain_path_is_read_so(url: str, path: str | None) -> None:
    found = plain_file(_at(url))
    assert (str(found) if found else None) == path


def test_without_a_url_it_is_the_file_beside_the_cluster() -> None:
    defaults = Settings(store=StoreSettings(url=None))
    found = plain_file(defaults)
    assert found == defaults.up.directory.absolute() / "store.sqlite"
