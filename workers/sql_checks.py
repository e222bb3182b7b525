"""Checking and repairing a statement on the sql worker, where a sandbox can compile it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hexgen_celery.sql.check import Prepared, StatementChecker
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.execution import DatabaseFile, ExecuteRequest, ExecuteResult, StatementLimits

Run = Callable[[ExecuteRequest], ExecuteResult]

COMPILE_LIMITS = StatementLimits(seconds=5.0, rows=1, result_bytes=1_000)
"""Compiling takes a millisecond; a statement made to take longer is refused."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The statement to execute, or the result that stands for its execution."""

    prepared: Prepared
    refusal: ExecuteResult | None = None


class StatementChecks:
    """Checks one statement; `run` sends a request to the sandbox and may raise on a cancel."""

    def __init__(self, schema: SchemaNames, file: DatabaseFile, token: str, run: Run) -> None:
        self._schema = schema
        self._file = file
        self._token = token
        self._run = run

    def check(self, sql: str, *, repairs: bool = True) -> Checked:
        """What to execute in place of `sql`, or why it must not be executed."""
        checker = StatementChecker(self._schema, self._compile, repairs=repairs)
        prepared = checker.prepare(sql)
        if prepared.problem:
            return Checked(prepared, ExecuteResult("rejected", error=prepared.problem))
        return Checked(prepared)

    def _compile(self, sql: str) -> str:
        request = ExecuteRequest(self._file, sql, COMPILE_LIMITS, self._token, "explain")
        result = self._run(request)
        return "" if result.ok else result.error or result.status
