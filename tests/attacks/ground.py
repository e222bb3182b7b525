"""A place to attack: a database among things that must stay as they are and unread."""

from __future__ import annotations

import hashlib
import os
import resource
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hexgen_celery.sql.execution import (
    DatabaseFile,
    ExecuteRequest,
    ExecuteResult,
    StatementLimits,
)
from hexgen_celery.sql.wire import cell_bytes
from tests.attacks.corpus import Attack

SECRET = "the-secret-that-no-answer-may-hold"
ROWS = 500
LIMITS = StatementLimits(seconds=0.3, rows=1_000, result_bytes=4_000_000)
QUESTION = "SELECT count(*) FROM item"
SCHEMA = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL);
CREATE INDEX item_name ON item (name);
CREATE VIEW cheap AS SELECT id, name FROM item WHERE price < 10;
CREATE VIEW trap AS SELECT load_extension('evil') AS loaded;
CREATE VIEW trap_pragma AS SELECT * FROM pragma_database_list;
"""

Execute = Callable[[ExecuteRequest], ExecuteResult]
State = dict[str, str]


class Ground:
    """A folder with a database, a secret one and a secret text, and folders that must stay as they
    are: that one, the working directory, and wherever else the owner says."""

    def __init__(self, root: Path, watched: Iterable[Path] = ()) -> None:
        self.folder = root / "data"
        self.outside = root / "outside"
        for directory in (self.folder, self.outside):
            directory.mkdir(parents=True)
        self.database = self.folder / "data.sqlite"
        self._secret = self.outside / "secret.sqlite"
        self._text = self.outside / "secret.txt"
        self._text.write_text(SECRET)
        _make_database(self.database)
        _make_secret(self._secret)
        self._watched = [root, Path.cwd(), *watched]

    @property
    def file(self) -> DatabaseFile:
        """The database under attack."""
        return DatabaseFile(str(self.database))

    def request(self, attack: Attack) -> ExecuteRequest:
        """The attack, aimed at this place."""
        places = {
            "folder": str(self.folder),
            "database": str(self.database),
            "secret": str(self._secret),
            "text": str(self._text),
        }
        return ExecuteRequest(self.file, attack.aimed_at(places), LIMITS)

    def state(self) -> State:
        """Every watched name with what it is, and the content of all files of ours."""
        deep = dict(_tree(self._watched[0]))
        shallow = {str(path): ",".join(sorted(os.listdir(path))) for path in self._watched[1:]}
        return {**deep, **shallow}


def _make_database(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(SCHEMA)
        items = ((number, f"n{number}", number * 1.5) for number in range(ROWS))
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO item VALUES (?, ?, ?)", items)
        connection.execute("COMMIT")


def _make_secret(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE secret (text TEXT)")
        connection.execute("INSERT INTO secret VALUES (?)", (SECRET,))


def _tree(root: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(mode) else ""
        yield str(path), f"{mode:o} {digest}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attack ended. `overrun` is in seconds beyond the statement's limit."""

    attack: Attack
    result: ExecuteResult
    overrun: float

    @property
    def failure(self) -> str:
        """What the attack achieved, or nothing."""
        if self.attack.verdict == "refuse" and self.result.ok:
            return "it was executed"
        if SECRET in str((self.result.rows, self.result.error)):
            return "it read the secret"
        if self.result.row_count > LIMITS.rows:
            return f"it returned {self.result.row_count} rows"
        size = sum(cell_bytes(cell) for row in self.result.rows for cell in row)
        size += sum(map(cell_bytes, self.result.columns))
        if size > 2 * LIMITS.result_bytes or len(self.result.error) > LIMITS.result_bytes:
            return f"it returned {size} bytes"
        return ""


def attempt(attack: Attack, request: ExecuteRequest, execute: Execute) -> Outcome:
    """Run one attack and look at how it ended."""
    started = time.monotonic()
    result = execute(request)
    seconds = time.monotonic() - started
    return Outcome(attack, result, seconds - request.limits.seconds)


def peak_bytes(pid: int) -> int:
    """The most memory that a running process ever had resident; 0 if it ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def own_peak_bytes() -> int:
    """The most memory that this process ever had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
