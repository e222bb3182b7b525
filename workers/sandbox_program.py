"""One sandbox program: a separate process with nothing to lose, and the pipes to it."""

from __future__ import annotations

import os
import pwd
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.sql.wire import LENGTH_BYTES, decode_body, encode_frame, frame_length

log = structlog.get_logger(__name__)

PROGRAM = "workers.sandbox"
PACKAGE_ROOT = str(Path(__file__).resolve().parent.parent)
READ_CHUNK_BYTES = 1 << 20
GREETING_BYTES = 1_000
PRIVATE_UMASK = 0o077


class SandboxDied(Exception):
    """The sandbox program ended, or its answer was not a frame."""


class SandboxSilent(Exception):
    """The sandbox program did not answer in the time it had."""


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """How the pool treats its programs.

    `memory_bytes` bounds each program's address space. `grace_seconds` is what a program may take
    beyond the statement's own limit before it is killed. After `statements_per_program` statements
    a program is replaced, so that nothing accumulates. `start_seconds` is the longest start.
    `user` is whom the programs run as where the owner is root (else they run as the owner): a user
    that can read the databases and this package, and ideally nothing else.
    """

    memory_bytes: int = 512 * 1024 * 1024
    grace_seconds: float = 0.5
    statements_per_program: int = 1_000
    start_seconds: float = 30.0
    user: str | None = None


class SandboxProgram:
    """One running sandbox program and the pipes to it. Used by one thread at a time."""

    def __init__(self, policy: SandboxPolicy) -> None:
        self._process = _start(policy)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self._output = self._process.stdout.fileno()
        self._start_seconds = policy.start_seconds
        self._greeted = False
        self.statements = 0

    @property
    def pid(self) -> int:
        """Process id of the program."""
        return self._process.pid

    def ask(self, message: dict[str, Any], seconds: float, most_bytes: int) -> dict[str, Any]:
        """Send one request and wait up to `seconds` for its answer of up to `most_bytes`.

        Raises:
            SandboxDied: if the program ended or spoke nonsense.
            SandboxSilent: if no answer came in time; the program must then be killed.
        """
        self._await_greeting()
        self.statements += 1
        try:
            self._input.write(encode_frame({**message, "id": self.statements}))
            self._input.flush()
        except OSError as error:
            raise SandboxDied(f"the sandbox cannot be written to: {error}") from error
        result = self._read_message(seconds, most_bytes)
        if result.get("id") != self.statements:
            raise SandboxDied(f"the sandbox answered {result.get('id')}, not {self.statements}")
        return result

    def _await_greeting(self) -> None:
        if self._greeted:
            return
        try:
            self._read_message(self._start_seconds, GREETING_BYTES)
        except SandboxSilent as error:
            raise SandboxDied(f"the sandbox did not start in {self._start_seconds} s") from error
        self._greeted = True

    def _read_message(self, seconds: float, most_bytes: int) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        try:
            length = frame_length(self._read_exactly(LENGTH_BYTES, deadline), most_bytes)
            return decode_body(self._read_exactly(length, deadline))
        except ValueError as error:
            raise SandboxDied(str(error)) from error

    def _read_exactly(self, count: int, deadline: float) -> bytes:
        data = bytearray()
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        while len(data) < count:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not poll.poll(remaining * 1000):
                raise SandboxSilent
            chunk = os.read(self._output, min(count - len(data), READ_CHUNK_BYTES))
            if not chunk:
                raise SandboxDied("the sandbox ended")
            data += chunk
        return bytes(data)

    def kill(self) -> None:
        """End the program at once. Safe from any thread and more than once."""
        self._process.kill()

    def dispose(self) -> int:
        """End the program, wait for it and release its pipes; returns its exit code."""
        self._process.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                _close_pipe(pipe.close)
        return code


def _start(policy: SandboxPolicy) -> subprocess.Popen[bytes]:
    """A new process in a session and a directory of its own, with no variable of ours, no file but
    the pipes, and as `policy.user` where that is possible.

    The directory is removed at once: nothing can be created in it, and nothing is left behind.
    """
    other = policy.user if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="hexgen-sandbox-") as nowhere:
        return subprocess.Popen(
            [sys.executable, "-S", "-P", "-m", PROGRAM, str(policy.memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": PACKAGE_ROOT, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=nowhere,
            umask=PRIVATE_UMASK,
            user=other,
            group=_group_of(other) if other else None,
            extra_groups=[] if other else None,
            start_new_session=True,
        )


def check_user(policy: SandboxPolicy) -> None:
    """Raise `InvalidSettings` where the policy's user is needed and unknown."""
    if policy.user is not None and os.geteuid() == 0:
        _group_of(policy.user)


def _group_of(user: str) -> int:
    try:
        return pwd.getpwnam(user).pw_gid
    except KeyError as error:
        raise InvalidSettings(
            f"no user {user!r} is known on this machine",
            field="sql.user",
            hint="create the user, or leave sql.user out",
        ) from error


def _close_pipe(close: Callable[[], None]) -> None:
    try:
        close()
    except OSError as error:
        log.debug("sandbox.pipe_close_failed", error=str(error))
