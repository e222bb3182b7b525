"""A pool of sandbox programs: statements go in from any thread, each bounded and killable."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any, get_args

import structlog

from hexgen_celery.closing import Closing
from hexgen_celery.errors import HexgenError
from hexgen_celery.sql.execution import ExecuteRequest, ExecuteResult, Status
from hexgen_celery.sql.wire import largest_answer
from workers.sandbox_program import (
    SandboxDied,
    SandboxPolicy,
    SandboxProgram,
    SandboxSilent,
    check_user,
)

log = structlog.get_logger(__name__)

__all__ = ["SandboxClosed", "SandboxPolicy", "SandboxPool"]

MAX_SQL_CHARS = 1_000_000
STATUSES = frozenset(get_args(Status))


class SandboxClosed(HexgenError):
    """Raised when a statement is sent to a pool that was closed. Start a new pool."""

    code = "sandbox_closed"


@dataclass(slots=True)
class _Execution:
    """One call of `execute` in progress, for cancellation."""

    cancelled: bool = False
    program: SandboxProgram | None = field(default=None)


class SandboxPool(Closing):
    """Runs statements in at most `size` sandbox programs at once.

    Thread-safe. A program that runs over its limit, is cancelled or dies is replaced, and the pool
    goes on.
    """

    def __init__(self, size: int, policy: SandboxPolicy | None = None) -> None:
        """Start nothing yet.

        Raises:
            ValueError: if `size` is less than 1.
            InvalidSettings: if the policy names a user that the machine does not know.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self._policy = policy or SandboxPolicy()
        check_user(self._policy)
        self._changed = threading.Condition()
        self._idle: list[SandboxProgram] = []
        self._free_places = size
        self._executions: dict[str, _Execution] = {}
        self._anonymous = 0
        self._closed = False

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
            if len(request.sql) > MAX_SQL_CHARS:
                return ExecuteResult(status="rejected", error="the statement is too long")
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
            most = largest_answer(request.limits.result_bytes)
            result = _result(program.ask(_message(request), patience, most))
            reusable = program.statements < self._policy.statements_per_program
            return result
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
        "path": os.path.abspath(request.database.path),
        "immutable": request.database.immutable,
        "sql": request.sql,
        "seconds": request.limits.seconds,
        "rows": request.limits.rows,
        "bytes": request.limits.result_bytes,
    }


def _result(answer: dict[str, Any]) -> ExecuteResult:
    """The result in a program's answer, which is doubted: a statement may have broken out.

    Raises:
        SandboxDied: if it is not what an honest program says.
    """
    try:
        result = ExecuteResult(
            status=answer["status"],
            columns=tuple(map(str, answer["columns"])),
            rows=tuple(map(list, answer["rows"])),
            truncated=bool(answer["truncated"]),
            seconds=float(answer["seconds"]),
            error=str(answer["error"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SandboxDied("the sandbox answered nonsense") from error
    if result.status not in STATUSES:
        raise SandboxDied("the sandbox answered nonsense")
    return result
