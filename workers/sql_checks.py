"""Checking and repairing a statement on the sql worker, where a sandbox can compile it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hexgen_celery.sql.check import Prepared, StatementChecker
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.execution import DatabaseFile, ExecuteRequest, ExecuteResult, StatementLimits
from hexgen_celery.sql.fitting.fitter import Fitted, Fitter
from hexgen_celery.sql.fitting.spelling import spellings_query

Run = Callable[[ExecuteRequest], ExecuteResult]

COMPILE_LIMITS = StatementLimits(seconds=5.0, rows=1, result_bytes=1_000)
"""Compiling takes a millisecond; a statement made to take longer is refused."""
COMPILE_SECONDS = 5.0
"""For all compilations of one statement and its repairs."""
TOO_SLOW = "compiling the statement took too long"
SPELLING_LIMITS = StatementLimits(seconds=1.0, rows=3, result_bytes=4_000)
"""One pass over one column; where that takes longer, the text stays as it is."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The statement to execute, or the result that stands for its execution."""

    prepared: Prepared
    fitted: Fitted
    refusal: ExecuteResult | None = None


class StatementChecks:
    """Checks one statement; `run` sends a request to the sandbox and may raise on a cancel."""

    def __init__(self, schema: SchemaNames, file: DatabaseFile, token: str, run: Run) -> None:
        self._schema = schema
        self._file = file
        self._token = token
        self._run = run
        self._compiled_seconds = 0.0

    def check(self, sql: str, *, repairs: bool = True, hint: str | None = None) -> Checked:
        """What to execute in place of `sql`, or why it must not be executed.

        With a `hint` (the question's evidence, perhaps "") a sound statement is also fitted to it
        and to the stored values.
        """
        checker = StatementChecker(self._schema, self._compile, repairs=repairs)
        prepared = checker.prepare(sql)
        unfitted = Fitted(prepared.sql)
        if prepared.problem:
            refusal = ExecuteResult("rejected", error=prepared.problem)
            return Checked(prepared, unfitted, refusal)
        if hint is None:
            return Checked(prepared, unfitted)
        fitter = Fitter(self._schema, self._compile, self._spellings)
        return Checked(prepared, fitter.fit(prepared.sql, hint))

    def _compile(self, sql: str) -> str:
        if self._compiled_seconds >= COMPILE_SECONDS:
            return TOO_SLOW
        request = ExecuteRequest(self._file, sql, COMPILE_LIMITS, self._token, "explain")
        result = self._run(request)
        self._compiled_seconds += result.seconds
        return "" if result.ok else result.error or result.status

    def _spellings(self, table: str, column: str, text: str) -> tuple[str, ...]:
        query = spellings_query(table, column, text)
        result = self._run(ExecuteRequest(self._file, query, SPELLING_LIMITS, self._token))
        return tuple(str(row[0]) for row in result.rows) if result.ok else (text,)
