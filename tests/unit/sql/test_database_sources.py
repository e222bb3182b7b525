"""From paths to readable databases, and the registry over them."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from hexgen_celery.core.clock import ManualClock
from hexgen_celery.errors import InvalidDatabase, UnknownDatabase
from hexgen_celery.sql.databases import DatabaseEntry, DatabaseRegistry
from hexgen_celery.sql.readonly import open_read_only
from tests.unit.sql.memory_hash import MemoryHash


@pytest.fixture
def registry(tmp_path: Path) -> DatabaseRegistry:
    return DatabaseRegistry(MemoryHash(), MemoryHash(), tmp_path / "snapshots", ManualClock(5.0))


def make(path: Path, rows: int = 3, table: str = "item") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, name TEXT)")
    names = [(f"n{number}",) for number in range(rows)]
    connection.executemany(f"INSERT INTO {table} (name) VALUES (?)", names)
    connection.commit()
    connection.close()
    return path


def state(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def count(entry: DatabaseEntry) -> int:
    connection = open_read_only(entry.file.path, entry.file.immutable)
    rows = connection.execute("SELECT count(*) FROM item").fetchone()[0]
    connection.close()
    return int(rows)


def test_a_plain_file(registry: DatabaseRegistry, tmp_path: Path) -> None:
    path = make(tmp_path / "data" / "shop.db")
    before = state(path.parent)
    (entry,) = registry.add(path)
    assert (entry.name, entry.path, entry.tables, entry.rows) == ("shop", str(path), 1, 3)
    assert not entry.snapshot
    assert entry.added_at == 5.0
    assert registry.entry("shop") == entry == registry.current("shop")
    assert registry.file("shop") == entry.file
    assert registry.names() == ["shop"]
    assert "CREATE TABLE item" in registry.schema("shop")
    assert hashlib.sha256(registry.schema("shop").encode()).hexdigest() == entry.schema_sha256
    assert registry.catalog("shop").digest() == entry.catalog_sha256
    assert state(path.parent) == before


def test_a_bird_directory(registry: DatabaseRegistry, tmp_path: Path) -> None:
    root = tmp_path / "bird"
    for name in ("beta", "alpha"):
        make(root / "dev_databases" / name / f"{name}.sqlite")
    described = root / "dev_databases" / "alpha" / "database_description"
    described.mkdir()
    (described / "item.csv").write_text("original_column_name,column_description\nname,the name\n")
    (root / "dev.json").write_text("[]")
    assert [entry.name for entry in registry.add(root)] == ["alpha", "beta"]
    assert "the name" in registry.schema("alpha")
    assert "the name" not in registry.schema("beta")
    assert [entry.name for entry in registry.add(root / "dev_databases")] == ["alpha", "beta"]
    (single,) = registry.add(root / "dev_databases" / "alpha")
    assert single.descriptions == str(described)


def test_a_name_of_ones_own(registry: DatabaseRegistry, tmp_path: Path) -> None:
    path = make(tmp_path / "a b.sqlite")
    with pytest.raises(InvalidDatabase, match="is no name") as caught:
        registry.add(path)
    assert caught.value.field == "name"
    assert registry.add(path, name="a-b")[0].name == "a-b"


def test_name_clashes(registry: DatabaseRegistry, tmp_path: Path) -> None:
    registry.add(make(tmp_path / "one" / "shop.sqlite"))
    with pytest.raises(InvalidDatabase, match="another database is called shop") as caught:
        registry.add(make(tmp_path / "two" / "shop.sqlite"))
    assert caught.value.field == "name"
    many = tmp_path / "many"
    make(many / "x" / "x.sqlite")
    make(many / "y" / "y.sqlite")
    with pytest.raises(InvalidDatabase, match="holds 2 databases"):
        registry.add(many, name="z")


def test_a_symlink_is_followed(registry: DatabaseRegistry, tmp_path: Path) -> None:
    path = make(tmp_path / "real" / "shop.sqlite")
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    (entry,) = registry.add(link, name="linked")
    assert entry.path == str(path)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is empty"),
        (b"a text that is long enough to be recognised as one\n" * 30, "looks like text"),
        (hashlib.sha256(b"x").digest() * 128, "may be encrypted"),
        (b"SQLite format 3\0" + b"\xff" * 4080, "cannot be read as a SQLite database"),
    ],
)
def test_files_that_are_no_database(
    registry: DatabaseRegistry, tmp_path: Path, content: bytes, match: str
) -> None:
    path = tmp_path / "data" / "bad.sqlite"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(InvalidDatabase, match=match) as caught:
        registry.add(path)
    assert caught.value.field == "path"
    assert caught.value.hint
    assert list(path.parent.iterdir()) == [path]
    assert registry.names() == []


def test_paths_that_lead_nowhere(registry: DatabaseRegistry, tmp_path: Path) -> None:
    with pytest.raises(InvalidDatabase, match="does not exist"):
        registry.add(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidDatabase, match="holds no SQLite database"):
        registry.add(tmp_path / "empty")
    os.mkfifo(tmp_path / "pipe.sqlite")
    with pytest.raises(InvalidDatabase, match="not a regular file"):
        registry.add(tmp_path / "pipe.sqlite")


def test_a_database_without_tables(registry: DatabaseRegistry, tmp_path: Path) -> None:
    path = tmp_path / "bare.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(InvalidDatabase, match="holds no tables"):
        registry.add(path)


def test_a_damaged_database(registry: DatabaseRegistry, tmp_path: Path) -> None:
    path = make(tmp_path / "data" / "shop.sqlite", rows=2000)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xee" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(InvalidDatabase, match="cannot be read"):
        registry.add(path)


def test_a_wal_database_at_rest_is_read_in_place(
    registry: DatabaseRegistry, tmp_path: Path
) -> None:
    path = make(tmp_path / "data" / "shop.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    before = state(path.parent)
    (entry,) = registry.add(path)
    assert entry.file.immutable
    assert not entry.snapshot
    assert count(entry) == 3
    assert state(path.parent) == before


@pytest.fixture
def live_wal(tmp_path: Path) -> Iterator[tuple[Path, sqlite3.Connection]]:
    path = make(tmp_path / "data" / "shop.sqlite")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("INSERT INTO item (name) VALUES ('only in the log')")
    yield path, connection
    connection.close()


def test_a_live_wal_database_is_copied_with_its_log(
    registry: DatabaseRegistry, live_wal: tuple[Path, sqlite3.Connection], tmp_path: Path
) -> None:
    path, writer = live_wal
    before = state(path.parent)
    (entry,) = registry.add(path)
    assert entry.snapshot
    assert count(entry) == entry.rows == 4
    assert state(path.parent) == before
    kept = sorted(path.suffix for path in (tmp_path / "snapshots").iterdir())
    assert kept == [".sqlite", ".values"]
    writer.execute("INSERT INTO item (name) VALUES ('later')")
    assert count(registry.current("shop")) == 5
    registry.remove("shop")
    assert os.listdir(tmp_path / "snapshots") == []
    assert path.exists()


def test_a_hot_journal_is_rolled_back_in_the_copy(
    registry: DatabaseRegistry, tmp_path: Path
) -> None:
    origin = make(tmp_path / "origin" / "shop.sqlite", rows=2000)
    writer = sqlite3.connect(origin, isolation_level=None)
    writer.execute("PRAGMA cache_size = 1")
    writer.execute("BEGIN")
    writer.execute("UPDATE item SET name = 'half done'")
    crashed = tmp_path / "crashed" / "shop.sqlite"
    crashed.parent.mkdir()
    for suffix in ("", "-journal"):
        Path(f"{crashed}{suffix}").write_bytes(Path(f"{origin}{suffix}").read_bytes())
    writer.close()
    before = state(crashed.parent)
    (entry,) = registry.add(crashed)
    assert entry.snapshot
    connection = open_read_only(entry.file.path, entry.file.immutable)
    assert connection.execute("SELECT count(*) FROM item WHERE name = 'half done'").fetchone() == (
        0,
    )
    connection.close()
    assert state(crashed.parent) == before


def test_a_read_only_directory(registry: DatabaseRegistry, tmp_path: Path) -> None:
    path = make(tmp_path / "data" / "shop.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        assert count(registry.add(path)[0]) == 3
        assert os.listdir(path.parent) == ["shop.sqlite"]
    finally:
        path.parent.chmod(0o755)


def test_a_changed_file_is_read_again(registry: DatabaseRegistry, tmp_path: Path) -> None:
    path = make(tmp_path / "shop.sqlite")
    (first,) = registry.add(path)
    path.unlink()
    make(path, rows=7)
    second = registry.current("shop")
    assert (first.rows, second.rows) == (3, 7)
    assert registry.catalog("shop").rows == 7
    path.unlink()
    with pytest.raises(InvalidDatabase, match="the file of shop cannot be read"):
        registry.current("shop")


def test_unknown_names_suggest_the_nearest(registry: DatabaseRegistry, tmp_path: Path) -> None:
    registry.add(make(tmp_path / "superhero.sqlite"))
    with pytest.raises(UnknownDatabase, match="Did you mean superhero"):
        registry.entry("super_hero")
    with pytest.raises(UnknownDatabase, match="hexgen db add"):
        registry.catalog("zzz")


def test_entries_travel_as_json(
    registry: DatabaseRegistry, live_wal: tuple[Path, sqlite3.Connection]
) -> None:
    (entry,) = registry.add(live_wal[0])
    assert entry.fingerprint.sides
    assert DatabaseEntry.from_json(entry.to_json()) == entry


def test_adding_reports_progress(registry: DatabaseRegistry, tmp_path: Path) -> None:
    seen: list[tuple[str, str, int, int]] = []
    registry.add(make(tmp_path / "shop.sqlite"), progress=lambda *report: seen.append(report))
    profiled = [("shop", "item", 0, 1), ("shop", "", 1, 1)]
    assert seen == [*profiled, ("shop", "item.name", 0, 1), ("shop", "", 1, 1)]
