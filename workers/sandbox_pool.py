"""A pool of sandbox programs: statements go in from any thread, each bounded and killable."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import structlog

from hexgen_celery.errors import HexgenError
from hexgen_celery.sql.execution import ExecuteRequest, ExecuteResult, Status
from hexgen_celery.sql.wire import LENGTH_BYTES, decode_body, encode_frame, frame_length

log = structlog.get_logger(__name__)

PROGRAM = "workers.sandbox"
PACKAGE_ROOT = str(Path(__file__).resolve().parent.parent)
READ_CHUNK_BYTES = 1 << 20


class SandboxClosed(HexgenError):
    """Raised when a statement is sent to a pool that was closed. Start a new pool."""

    code = "sandbox_closed"


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
    """

    memory_bytes: int = 512 * 1024 * 1024
    grace_seconds: float = 0.5
    statements_per_program: int = 1_000
    start_seconds: float = 30.0


class SandboxProgram:
    """One running sandbox program and the pipes to it. Used by one thread at a time."""

    def __init__(self, policy: SandboxPolicy) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-P", "-m", PROGRAM, str(policy.memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": PACKAGE_ROOT, "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
        )
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

    def ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send one request and wait up to `seconds` for its answer.

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
        result = self._read_message(seconds)
        if result.get("id") != self.statements:
            raise SandboxDied(f"the sandbox answered {result.get('id')}, not {self.statements}")
        return result

    def _await_greeting(self) -> None:
        if self._greeted:
            return
        try:
            self._read_message(self._start_seconds)
        except SandboxSilent as error:
            raise SandboxDied(f"the sandbox did not start in {self._start_seconds} s") from error
        self._greeted = True

    def _read_message(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        try:
            length = frame_length(self._read_exactly(LENGTH_BYTES, deadline))
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


def _close_pipe(close: Callable[[], None]) -> None:
    try:
        close()
    except OSError as error:
        log.debug("sandbox.pipe_close_failed", error=str(error))


@dataclass(slots=True)
class _Execution:
    """One call of `execute` in progress, for cancellation."""

    cancelled: bool = False
    program: SandboxProgram | None = field(default=None)


class SandboxPool:
    """Runs statements in at most `size` sandbox programs at once.

    Thread-safe. A program that runs over its limit, is cancelled or dies is replaced, and the pool
    goes on.
    """

    def __init__(self, size: int, policy: SandboxPolicy | None = None) -> None:
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self._policy = policy or SandboxPolicy()
        self._changed = threading.Condition()
        self._idle: list[SandboxProgram] = []
        self._free_places = size
        self._executions: dict[str, _Execution] = {}
        self._anonymous = 0
        self._closed = False

    def __enter__(self) -> SandboxPool:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def pids(self) -> tuple[int, ...]:
        """Process ids of the programs that are alive, idle ones first."""
        with self._changed:
            busy = [run.program for run in self._executions.values() if run.program]
            return tuple(program.pid for program in (*self._idle, *busy))

    def execute(self, request: ExecuteRequest) -> ExecuteResult:
        """Run one statement; waits for a free program first. Failing SQL is a result.

        Raises:
            SandboxClosed: if the pool was closed before the statement began.
        """
        execution, token = self._begin(request.token)
        try:
            program = self._acquire(execution)
            if program is None:
                return ExecuteResult(status="cancelled", error="cancelled before it began")
            return self._run(program, execution, request)
        except OSError as error:
            return ExecuteResult(status="error", error=f"the sandbox cannot start: {error}")
        finally:
            with self._changed:
                del self._executions[token]
                self._changed.notify_all()

    def cancel(self, token: str) -> bool:
        """Kill the execution named `token`, whether it waits or runs; False if there is none."""
        with self._changed:
            execution = self._executions.get(token)
            if execution is None:
                return False
            execution.cancelled = True
            if execution.program is not None:
                execution.program.kill()
            self._changed.notify_all()
            return True

    def close(self) -> None:
        """End every program, running statements included, and wait for all of them."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            for execution in self._executions.values():
                execution.cancelled = True
                if execution.program is not None:
                    execution.program.kill()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._executions)
        for program in idle:
            program.dispose()

    def _begin(self, token: str) -> tuple[_Execution, str]:
        with self._changed:
            if self._closed:
                raise SandboxClosed("the sandbox pool is closed", hint="Start a new pool")
            self._anonymous += 1
            name = token or f"#{self._anonymous}"
            if name in self._executions:
                raise ValueError(f"an execution with the token {name!r} is already in progress")
            execution = self._executions[name] = _Execution()
            return execution, name

    def _acquire(self, execution: _Execution) -> SandboxProgram | None:
        with self._changed:
            self._changed.wait_for(lambda: self._free_places > 0 or execution.cancelled)
            if execution.cancelled:
                return None
            self._free_places -= 1
            if self._idle:
                execution.program = self._idle.pop()
                return execution.program
        return self._start(execution)

    def _start(self, execution: _Execution) -> SandboxProgram:
        try:
            program = SandboxProgram(self._policy)
        except OSError:
            self._give_back(None)
            raise
        with self._changed:
            execution.program = program
            if execution.cancelled:
                program.kill()
        return program

    def _give_back(self, program: SandboxProgram | None) -> None:
        with self._changed:
            self._free_places += 1
            if program is not None:
                self._idle.append(program)
            self._changed.notify_all()

    def _run(
        self, program: SandboxProgram, execution: _Execution, request: ExecuteRequest
    ) -> ExecuteResult:
        started = time.monotonic()
        reusable = False
        try:
            patience = request.limits.seconds + self._policy.grace_seconds
            answer = program.ask(_message(request), patience)
            reusable = program.statements < self._policy.statements_per_program
            return _result(answer)
        except SandboxSilent:
            return self._forced(
                execution, "timeout", "the statement exceeded its time limit", started
            )
        except SandboxDied as error:
            return self._forced(execution, "error", str(error), started)
        finally:
            self._release(program, execution, reusable)

    def _forced(
        self, execution: _Execution, status: Status, error: str, started: float
    ) -> ExecuteResult:
        with self._changed:
            if execution.cancelled:
                status, error = "cancelled", "cancelled while it ran"
        log.info("sandbox.forced_end", status=status, reason=error)
        seconds = time.monotonic() - started
        return ExecuteResult(status=status, seconds=seconds, error=error)

    def _release(self, program: SandboxProgram, execution: _Execution, reusable: bool) -> None:
        with self._changed:
            execution.program = None
            keep = reusable and not execution.cancelled and not self._closed
        if not keep:
            program.dispose()
        self._give_back(program if keep else None)


def _message(request: ExecuteRequest) -> dict[str, Any]:
    return {
        "op": request.operation,
        "path": request.database.path,
        "immutable": request.database.immutable,
        "sql": request.sql,
        "seconds": request.limits.seconds,
        "rows": request.limits.rows,
        "bytes": request.limits.result_bytes,
    }


def _result(answer: dict[str, Any]) -> ExecuteResult:
    return ExecuteResult(
        status=answer["status"],
        columns=tuple(answer["columns"]),
        rows=tuple(answer["rows"]),
        truncated=answer["truncated"],
        seconds=answer["seconds"],
        error=answer["error"],
    )
