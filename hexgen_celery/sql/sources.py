"""From a path a user names to a file that can be read without leaving anything beside it.

An ordinary file is read in place. A WAL database without a live `-wal` is read in place as
immutable, for a plain open would create `-wal` and `-shm`. A live `-wal` or a hot journal holds
part of the content, and SQLite would have to write to apply it: such a database is copied to our
own directory first and recovered there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hexgen_celery.errors import InvalidDatabase
from hexgen_celery.sql.descriptions import DIRECTORY_NAME
from hexgen_celery.sql.execution import DatabaseFile
from hexgen_celery.sql.readonly import is_wal_file, open_read_only

MAGIC = b"SQLite format 3\0"
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
HEADER_BYTES = 100
HEAD_BYTES = 65_536
SUFFIXES = (".sqlite", ".sqlite3", ".db", ".db3")
BIRD_DIRECTORIES = ("dev_databases", "train_databases", "databases", "database")
SIDE_SUFFIXES = ("-wal", "-journal")
COPY_ATTEMPTS = 5
SHOWN_CHARS = 300
PRIVATE_DIRECTORY, PRIVATE_FILE, PUBLIC_FILE = 0o711, 0o600, 0o644


@dataclass(frozen=True, slots=True)
class DatabaseSource:
    """A database file found on disk, the name it goes by and its descriptions' directory."""

    name: str
    path: Path
    descriptions: Path | None = None


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What changes when a database changes: size and time of the file and of its side files, and
    the file's header in hex (it counts the changes, whatever the time of the file says)."""

    size: int
    mtime_ns: int
    sides: tuple[tuple[str, int, int], ...] = ()
    header: str = ""

    @classmethod
    def of(cls, path: Path) -> Fingerprint:
        """The fingerprint of the file as it is now.

        Raises:
            OSError: if the file is gone, cannot be read, or is no regular file.
        """
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise OSError("it is not a regular file")
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES).hex()
        sides = ((suffix, _stat(path, suffix)) for suffix in SIDE_SUFFIXES)
        present = tuple((suffix, *side) for suffix, side in sides if side is not None)
        return cls(found.st_size, found.st_mtime_ns, present, header)


def _stat(path: Path, suffix: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(f"{path}{suffix}")
    except FileNotFoundError:
        return None
    return (found.st_size, found.st_mtime_ns)


def find_sources(path: Path, name: str | None = None) -> list[DatabaseSource]:
    """The databases at `path`: one file, one database's directory, or a directory of many.

    Raises:
        InvalidDatabase: if there is none, or `name` was given for several.
    """
    path = _existing(path)
    try:
        sources = _in_directory(path) if path.is_dir() else [_source(path)]
    except OSError as error:
        raise InvalidDatabase(
            f"{path} cannot be listed: {error.strerror}", hint="Check its permissions", field="path"
        ) from error
    for source in sources:
        _check_encoding(source.path)
    if not sources:
        raise InvalidDatabase(
            f"{path} holds no SQLite database",
            hint="Name a SQLite file, or a directory with <name>/<name>.sqlite",
            field="path",
        )
    if name is None:
        return sources
    if len(sources) > 1:
        raise InvalidDatabase(
            f"{path} holds {len(sources)} databases, which cannot all be called {name!r}",
            hint="Leave the name out, or name one database's path",
            field="name",
        )
    return [DatabaseSource(name, sources[0].path, sources[0].descriptions)]


def _existing(path: Path) -> Path:
    try:
        path = path.expanduser()
        if path.exists():
            return path
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise InvalidDatabase(
            f"the path {_shown(path)} cannot be used: {reason}",
            hint="Check the path",
            field="path",
        ) from error
    raise InvalidDatabase(f"{_shown(path)} does not exist", hint="Check the path", field="path")


def _shown(path: Path) -> str:
    text = str(path).encode("utf-8", "replace").decode()
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def _check_encoding(path: Path) -> None:
    """Paths are stored as text, for workers on other machines too."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidDatabase(
            f"the path {_shown(path)} is not valid UTF-8",
            hint="Rename the file or the directory",
            field="path",
        ) from error


def _in_directory(directory: Path) -> list[DatabaseSource]:
    own = [found for found in _database_files(directory) if found.stem == directory.name]
    files = own or _database_files(directory)
    if files:
        return [_source(found) for found in files]
    for inner in BIRD_DIRECTORIES:
        if (directory / inner).is_dir():
            return _children(directory / inner)
    return _children(directory)


def _children(directory: Path) -> list[DatabaseSource]:
    files = (
        child / f"{child.name}{suffix}"
        for child in sorted(directory.iterdir())
        if child.is_dir()
        for suffix in SUFFIXES
    )
    return [_source(found) for found in files if found.is_file()]


def _database_files(directory: Path) -> list[Path]:
    return [
        found
        for found in sorted(directory.iterdir())
        if found.suffix.lower() in SUFFIXES and found.is_file()
    ]


def _source(path: Path) -> DatabaseSource:
    descriptions = path.parent / DIRECTORY_NAME
    return DatabaseSource(
        name=path.stem,
        path=path.resolve(),
        descriptions=descriptions.resolve() if descriptions.is_dir() else None,
    )


def head_digest(path: Path) -> str:
    """SHA-256 of the file's first 64 KiB, in hex.

    Raises:
        OSError: if the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.sha256(file.read(HEAD_BYTES)).hexdigest()


def prepare(source: DatabaseSource, snapshots: Path) -> DatabaseFile:
    """How to read `source` so that nothing appears beside it; copies it if that is the only way.

    Raises:
        InvalidDatabase: if the file is no SQLite database, is damaged, or keeps changing.
    """
    _check_header(source.path)
    _check_sides(source.path)
    if _has_unapplied_content(source.path):
        file = DatabaseFile(str(_snapshot(source, snapshots)), immutable=True)
    else:
        file = DatabaseFile(str(source.path), immutable=is_wal_file(str(source.path)))
    _check_schema(source.path, file)
    return file


def _check_header(path: Path) -> None:
    if not path.is_file():
        raise InvalidDatabase(f"{path} is not a regular file", hint="Name a file", field="path")
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise InvalidDatabase(
            f"{path} cannot be read: {error.strerror}", hint="Check its permissions", field="path"
        ) from error
    if not head:
        raise InvalidDatabase(f"{path} is empty", hint="Name a file with tables", field="path")
    if not head.startswith(MAGIC):
        raise InvalidDatabase(
            f"{path} is not a SQLite database{_guess(head)}",
            hint="Name a SQLite 3 file; an encrypted one must be decrypted first",
            field="path",
        )


def _guess(head: bytes) -> str:
    text = sum(32 <= byte < 127 or byte in b"\t\r\n" for byte in head)
    if text > 0.9 * len(head):
        return " (it looks like text; load SQL or CSV with the sqlite3 program first)"
    return " (it may be encrypted)" if len(head) % 512 == 0 else ""


def _check_sides(path: Path) -> None:
    """A pipe, device or link in place of a log or journal is a mistake, or an attempt to have us
    wait for ever or copy somebody else's file."""
    for suffix in SIDE_SUFFIXES:
        side = Path(f"{path}{suffix}")
        if os.path.lexists(side) and not stat.S_ISREG(side.lstat().st_mode):
            raise InvalidDatabase(
                f"{side} is not a regular file", hint="Remove it from beside the file", field="path"
            )


def _has_unapplied_content(path: Path) -> bool:
    wal = _stat(path, "-wal")
    return bool(wal and wal[0]) or _is_hot_journal(path)


def _is_hot_journal(path: Path) -> bool:
    try:
        with open(f"{path}-journal", "rb") as file:
            return file.read(len(JOURNAL_MAGIC)) == JOURNAL_MAGIC
    except FileNotFoundError:
        return False


def _snapshot(source: DatabaseSource, snapshots: Path) -> Path:
    snapshots.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    work = snapshots / f"{source.name}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        _copy_unchanged(source.path, work)
        _recover(work)
        target = snapshots / f"{source.name}.sqlite"
        work.chmod(PUBLIC_FILE if source.path.stat().st_mode & stat.S_IROTH else PRIVATE_FILE)
        work.replace(target)
        return target
    except (OSError, sqlite3.Error) as error:
        raise InvalidDatabase(
            f"{source.path} has unfinished changes beside it and cannot be copied: {error}",
            hint="Close the program that writes it, then add it again",
            field="path",
        ) from error
    finally:
        for suffix in ("", "-shm", *SIDE_SUFFIXES):
            Path(f"{work}{suffix}").unlink(missing_ok=True)


def _copy_unchanged(path: Path, target: Path) -> None:
    for _ in range(COPY_ATTEMPTS):
        before = Fingerprint.of(path)
        for suffix in ("", *SIDE_SUFFIXES):
            Path(f"{target}{suffix}").unlink(missing_ok=True)
            if suffix == "" or _stat(path, suffix):
                Path(f"{target}{suffix}").touch(PRIVATE_FILE)
                shutil.copyfile(f"{path}{suffix}", f"{target}{suffix}")
        if Fingerprint.of(path) == before:
            return
    raise OSError("it is being written all the time")


def _recover(path: Path) -> None:
    """Apply the journal or the log to the copy, and leave one plain file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"the copy is damaged ({verdict})")


def _check_schema(path: Path, file: DatabaseFile) -> None:
    try:
        with closing(open_read_only(file.path, file.immutable)) as connection:
            tables = connection.execute(
                "SELECT count(*) FROM sqlite_master WHERE type IN ('table', 'view')"
            ).fetchone()[0]
    except sqlite3.Error as error:
        locked = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
        raise InvalidDatabase(
            f"{path} cannot be read as a SQLite database: {error}",
            hint="Close the program that writes it, then try again"
            if locked
            else "Check it with: sqlite3 FILE 'PRAGMA integrity_check'",
            field="path",
        ) from error
    if not tables:
        raise InvalidDatabase(f"{path} holds no tables", hint="Name another file", field="path")
