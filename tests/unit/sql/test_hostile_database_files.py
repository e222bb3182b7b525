"""`db add` and the use of a database, with paths and files that mean no good."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from hexgen_celery.core.clock import ManualClock
from hexgen_celery.errors import InvalidDatabase
from hexgen_celery.sql.databases import DatabaseRegistry
from hexgen_celery.sql.readonly import open_read_only
from tests.unit.sql.memory_hash import MemoryHash
from workers.sql_databases import RegisteredDatabases

SAFETY_SECONDS = 30.0
PAGES_DAMAGED = 30


@pytest.fixture
def snapshots(tmp_path: Path) -> Path:
    return tmp_path / "snapshots"


@pytest.fixture
def registry(snapshots: Path) -> DatabaseRegistry:
    return DatabaseRegistry(MemoryHash(), MemoryHash(), snapshots, ManualClock(5.0))


def make(path: Path, rows: int = 3, script: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
        names = [(f"n{number}",) for number in range(rows)]
        connection.executemany("INSERT INTO item (name) VALUES (?)", names)
        connection.executescript(script)
    return path


def live_wal(path: Path) -> sqlite3.Connection:
    """A connection that keeps a row in the log of `path`."""
    make(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("INSERT INTO item (name) VALUES ('in the log')")
    return connection


def in_time(act: Callable[[], Any]) -> Any:
    """What `act` returns or raises; fails if it waits for ever."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(act())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SAFETY_SECONDS)
    assert outcome, "it waits for ever"
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("/tmp/" + "a" * 5000, "cannot be used"),
        ("~no-such-user-here/x.sqlite", "cannot be used"),
        ("a\0b", r"does not exist|cannot be used"),
        ("/dev/zero", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("/proc/self/mem", "cannot be read"),
    ],
)
def test_paths_that_are_no_use(registry: DatabaseRegistry, path: str, match: str) -> None:
    with pytest.raises(InvalidDatabase, match=match) as caught:
        in_time(lambda: registry.add(Path(path)))
    assert caught.value.field == "path"
    assert caught.value.hint
    assert len(str(caught.value)) < 1_000


def test_links_that_lead_nowhere(registry: DatabaseRegistry, tmp_path: Path) -> None:
    (tmp_path / "loop.sqlite").symlink_to(tmp_path / "loop.sqlite")
    (tmp_path / "dangling.sqlite").symlink_to(tmp_path / "absent")
    for name in ("loop.sqlite", "dangling.sqlite"):
        with pytest.raises(InvalidDatabase, match=r"does not exist|cannot be used"):
            registry.add(tmp_path / name)


def test_a_path_that_is_not_utf_8_is_refused(registry: DatabaseRegistry, tmp_path: Path) -> None:
    path = make(Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xe9/shop.sqlite")))
    with pytest.raises(InvalidDatabase, match="not valid UTF-8") as caught:
        registry.add(path)
    str(caught.value).encode()


def test_a_path_with_the_signs_of_a_uri_is_only_a_path(
    registry: DatabaseRegistry, tmp_path: Path
) -> None:
    path = make(tmp_path / "x?mode=rwc&cache=shared#a%41" / "shop.sqlite")
    (entry,) = registry.add(path)
    with closing(open_read_only(entry.file.path, entry.file.immutable)) as connection:
        assert connection.execute("SELECT count(*) FROM item").fetchone() == (3,)
    assert [each.name for each in path.parent.iterdir()] == ["shop.sqlite"]


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
@pytest.mark.parametrize("kind", ["pipe", "directory", "link", "device"])
def test_a_side_file_that_is_no_file_is_refused(
    registry: DatabaseRegistry, tmp_path: Path, suffix: str, kind: str
) -> None:
    path = make(tmp_path / "data" / "shop.sqlite")
    side = Path(f"{path}{suffix}")
    (tmp_path / "secret").write_bytes(bytes.fromhex("d9d505f920a163d7") + b"secret")
    makers: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(side),
        "directory": side.mkdir,
        "link": lambda: side.symlink_to(tmp_path / "secret"),
        "device": lambda: side.symlink_to("/dev/zero"),
    }
    makers[kind]()
    with pytest.raises(InvalidDatabase, match="not a regular file"):
        in_time(lambda: registry.add(path))


@pytest.mark.parametrize("kind", ["pipe", "directory", "device"])
def test_a_description_that_is_no_file_is_passed_over(
    registry: DatabaseRegistry, tmp_path: Path, kind: str
) -> None:
    path = make(tmp_path / "data" / "shop.sqlite")
    description = path.parent / "database_description" / "item.csv"
    description.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(description)
    elif kind == "directory":
        description.mkdir()
    else:
        description.symlink_to("/dev/zero")
    assert in_time(lambda: registry.add(path))[0].tables == 1


def test_a_description_that_is_no_table_is_named(
    registry: DatabaseRegistry, tmp_path: Path
) -> None:
    path = make(tmp_path / "data" / "shop.sqlite")
    description = path.parent / "database_description" / "item.csv"
    description.parent.mkdir()
    description.write_text(f'original_column_name,column_description\nname,"{"x" * 200_000}"\n')
    with pytest.raises(InvalidDatabase, match=r"item\.csv is not a CSV file"):
        registry.add(path)


def test_a_file_swapped_for_a_link_is_refused(registry: DatabaseRegistry, tmp_path: Path) -> None:
    path = make(tmp_path / "data" / "shop.sqlite")
    registry.add(path)
    path.unlink()
    path.symlink_to(make(tmp_path / "private" / "other.sqlite", rows=9))
    with pytest.raises(InvalidDatabase, match="has become a link") as caught:
        registry.current("shop")
    assert caught.value.field == "database"


def test_a_directory_swapped_for_a_link_is_refused(
    registry: DatabaseRegistry, tmp_path: Path
) -> None:
    path = make(tmp_path / "data" / "shop.sqlite")
    make(tmp_path / "private" / "shop.sqlite", rows=9)
    registry.add(path)
    path.parent.rename(tmp_path / "moved")
    path.parent.symlink_to(tmp_path / "private")
    with pytest.raises(InvalidDatabase, match="has become a link"):
        registry.current("shop")


@pytest.mark.parametrize("kind", ["pipe", "directory", "empty"])
def test_a_file_swapped_for_something_else_is_an_error(
    registry: DatabaseRegistry, tmp_path: Path, kind: str
) -> None:
    path = make(tmp_path / "data" / "shop.sqlite")
    registry.add(path)
    path.unlink()
    {"pipe": lambda: os.mkfifo(path), "directory": path.mkdir, "empty": path.touch}[kind]()
    with pytest.raises(InvalidDatabase, match=r"not a regular file|is empty"):
        in_time(lambda: registry.current("shop"))


def test_a_file_swapped_for_one_of_the_same_size_and_time_is_read_anew(
    registry: DatabaseRegistry, tmp_path: Path
) -> None:
    path = make(tmp_path / "data" / "shop.sqlite", rows=3)
    registry.add(path)
    before = path.stat()
    other = make(tmp_path / "other.sqlite", rows=4, script="UPDATE item SET name = 'x'")
    assert other.stat().st_size == before.st_size
    os.utime(other, ns=(before.st_mtime_ns, before.st_mtime_ns))
    os.replace(other, path)
    assert registry.current("shop").rows == 4


def test_a_database_that_grows_between_uses(registry: DatabaseRegistry, tmp_path: Path) -> None:
    path = make(tmp_path / "data" / "shop.sqlite")
    registry.add(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO item (name) VALUES ('later')")
    assert registry.current("shop").rows == 4


def test_a_changed_file_is_read_once_for_all_threads(
    registry: DatabaseRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "data" / "shop.sqlite")
    registry.add(path)
    make(tmp_path / "other.sqlite", rows=50).replace(path)
    reads: list[object] = []
    register = registry._register

    def counted(*arguments: Any) -> Any:
        reads.append(arguments)
        return register(*arguments)

    monkeypatch.setattr(registry, "_register", counted)
    databases = RegisteredDatabases(registry)
    threads = [threading.Thread(target=databases.file, args=("shop",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SAFETY_SECONDS)
    assert len(reads) == 1


@pytest.mark.parametrize(("mode", "kept"), [(0o600, 0o600), (0o640, 0o600), (0o644, 0o644)])
def test_a_copy_is_as_private_as_its_original(
    registry: DatabaseRegistry, snapshots: Path, tmp_path: Path, mode: int, kept: int
) -> None:
    path = tmp_path / "data" / "shop.sqlite"
    with closing(live_wal(path)):
        path.chmod(mode)
        registry.add(path)
    modes = {each.suffix: stat.S_IMODE(each.stat().st_mode) for each in snapshots.iterdir()}
    assert modes == {".sqlite": kept, ".values": 0o600}
    assert stat.S_IMODE(snapshots.stat().st_mode) & 0o066 == 0


def test_a_link_in_place_of_the_copy_is_replaced_not_followed(
    registry: DatabaseRegistry, snapshots: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    snapshots.mkdir()
    (snapshots / "shop.sqlite").symlink_to(victim)
    with closing(live_wal(tmp_path / "data" / "shop.sqlite")):
        registry.add(tmp_path / "data" / "shop.sqlite")
    assert victim.read_text() == "untouched"
    assert not (snapshots / "shop.sqlite").is_symlink()


@pytest.mark.parametrize("seed", range(PAGES_DAMAGED))
def test_a_damaged_file_is_read_or_refused(
    registry: DatabaseRegistry, tmp_path: Path, seed: int
) -> None:
    """Bytes flipped anywhere, the header included: an entry or one clear error, nothing else."""
    rng = random.Random(seed)
    path = make(tmp_path / "data" / "shop.sqlite", rows=400, script="CREATE INDEX i ON item (name)")
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 4, 40))):
        content[rng.randrange(16, rng.choice((100, len(content))))] = rng.randrange(256)
    path.write_bytes(content)
    with suppress(InvalidDatabase):
        in_time(lambda: registry.add(path))
    assert [each.name for each in path.parent.iterdir()] == ["shop.sqlite"]
    assert path.read_bytes() == content
