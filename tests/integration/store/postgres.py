"""A real PostgreSQL of its own for tests: an unprivileged user's, in a directory of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

START_SECONDS = 60.0
_USERS = ("postgres", "nobody")


def binaries() -> Path | None:
    """The directory of PostgreSQL's server programs; None where there are none."""
    found = shutil.which("postgres")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((each for each in places if (each / "initdb").exists()), None)


def unprivileged_user() -> str | None:
    """Whom the server runs as: it refuses root. None: whoever we are."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in _USERS if name in names), None)


class PostgresServer:
    """One server; `stop` and `start` as often as a test likes, on one port with its data."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._user = unprivileged_user()
        self.directory = Path(tempfile.mkdtemp(prefix="hexgen-pg-"))
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            os.chown(self.directory, pwd.getpwnam(self._user).pw_uid, -1)
        self._run("initdb", "-D", str(self._data), "-U", "hexgen", "-A", "trust", "-N")

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def url(self, database: str = "hexgen") -> str:
        """A database of this server, for `store.url`."""
        return f"postgresql://hexgen@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = ("-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.directory))
        log = (self.directory / "postgres.log").open("ab")
        command = [str(self._programs / "postgres"), "-D", str(self._data), *options]
        self._process = subprocess.Popen(
            command, stdout=log, stderr=log, user=self._user, cwd=self.directory
        )
        log.close()
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, self._log()
            assert time.monotonic() < until, self._log()
            time.sleep(0.05)

    def create(self, database: str) -> str:
        """A new, empty database; its URL."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database}".encode())
        return self.url(database)

    def stop(self) -> None:
        """Stop at once, as after a power cut: connections break, what was committed stays."""
        if self._process is not None:
            self._process.send_signal(3)  # SIGQUIT: immediate shutdown
            self._process.wait(timeout=30)
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(
            command, check=True, user=self._user, cwd=self.directory, capture_output=True
        )

    def _log(self) -> str:
        return (self.directory / "postgres.log").read_text(errors="replace")[-2000:]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
