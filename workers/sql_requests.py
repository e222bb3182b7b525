"""Running database operations in sandbox programs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from hexgen_celery.errors import HexgenError, RequestCancelled
from hexgen_celery.llm import CancelToken
from hexgen_celery.references import ClaimedRequest
from hexgen_celery.settings import SqlSettings
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.execution import (
    Cell,
    DatabaseFile,
    ExecuteRequest,
    ExecuteResult,
    StatementLimits,
)
from hexgen_celery.sql.metrics import distinct_digest, ordered_digest, result_digest
from hexgen_celery.workflows.definition import Json, SqlCall
from workers.requests import Done
from workers.sql_checks import Checked, StatementChecks

log = structlog.get_logger(__name__)

SECOND_KILL_SECONDS = 0.2
PREVIEW_ROWS = 5
PREVIEW_CHARACTERS = 120

Operation = Callable[[ClaimedRequest, SqlCall, CancelToken], Done]


class UnknownOperation(HexgenError):
    """Raised when a node asks for an operation that this sql worker does not have."""

    code = "unknown_operation"


class Sandbox(Protocol):
    """A pool of sandbox programs."""

    def execute(self, request: ExecuteRequest) -> ExecuteResult:
        """Run one statement; failing SQL is a result."""
        ...

    def cancel(self, token: str) -> bool:
        """Kill the execution named `token`; False when there is none."""
        ...


class Databases(Protocol):
    """Registered databases."""

    def file(self, name: str) -> DatabaseFile:
        """How to open `name`; raises `UnknownDatabase`."""
        ...

    def schema_names(self, name: str) -> SchemaNames:
        """The names in its catalog; raises `UnknownDatabase`."""
        ...


class SqlExecutor:
    """Runs database operations by name."""

    def __init__(self, operations: Mapping[str, Operation]) -> None:
        self._operations = dict(operations)

    def execute(self, request: ClaimedRequest, cancel: CancelToken) -> Done:
        """Run the node's operation; see `RequestExecutor`."""
        call = request.spec.call
        assert isinstance(call, SqlCall), f"{request.spec.id} is not an SQL request"
        operation = self._operations.get(call.op)
        if operation is None:
            known = ", ".join(sorted(self._operations))
            raise UnknownOperation(f"unknown operation {call.op!r}", hint=f"known: {known}")
        return operation(request, call, cancel)


class ExecuteOperation:
    """`execute`: check the statement, then run it within the limits as the model wrote it, or with
    the repairs it needed. The argument `repair` (default true) allows repairs; `hint` (the
    evidence, perhaps "") also lets it be fitted to the question (`sql.fitting`)."""

    def __init__(self, sandbox: Sandbox, databases: Databases, settings: SqlSettings) -> None:
        self._sandbox = sandbox
        self._databases = databases
        self._settings = settings

    def __call__(self, request: ClaimedRequest, call: SqlCall, cancel: CancelToken) -> Done:
        ref = request.ref
        token = f"{ref.workflow_id}/{ref.node_id}/{ref.attempt}"
        file = self._databases.file(call.database)
        schema = self._databases.schema_names(call.database)
        checks = StatementChecks(schema, file, token, lambda each: self._run(each, cancel))
        unsubscribe = cancel.subscribe(lambda: self._kill(token))
        try:
            checked = checks.check(
                call.sql,
                repairs=bool(call.arguments.get("repair", True)),
                hint=call.arguments.get("hint"),
            )
            statement = ExecuteRequest(file, checked.fitted.sql, self._limits(call), token)
            result = checked.refusal or self._run(statement, cancel)
        finally:
            unsubscribe()
        return Done({**_summary(result), **_preparation(checked)}, _bulk(result))

    def _run(self, statement: ExecuteRequest, cancel: CancelToken) -> ExecuteResult:
        if cancel.is_set:
            raise RequestCancelled(f"{statement.token} was cancelled ({cancel.reason})")
        result = self._sandbox.execute(statement)
        if result.status == "cancelled":
            raise RequestCancelled(f"{statement.token} was cancelled ({cancel.reason})")
        return result

    def _limits(self, call: SqlCall) -> StatementLimits:
        settings = self._settings
        own = call.time_limit_seconds or settings.time_limit_seconds
        return StatementLimits(
            seconds=min(own, settings.time_limit_seconds),
            rows=settings.max_rows,
            result_bytes=settings.max_result_bytes,
        )

    def _kill(self, token: str) -> None:
        """Kill the statement, also when the cancel came just before it reached the pool."""
        if not self._sandbox.cancel(token):
            again = threading.Timer(SECOND_KILL_SECONDS, self._sandbox.cancel, (token,))
            again.daemon = True
            again.start()


def _preparation(checked: Checked) -> Json:
    """What was executed in place of the model's text, where that was repaired or fitted."""
    rules = {"repairs": list(checked.prepared.rules), "fits": list(checked.fitted.rules)}
    changed = checked.prepared.repairs or checked.fitted.rules
    return {"sql": checked.fitted.sql, **rules} if changed else rules


def _bulk(result: ExecuteResult) -> Json:
    """The rows, kept out of the way of every view."""
    return {
        "columns": list(result.columns),
        "rows": list(result.rows),
        "truncated": result.truncated,
    }


def _shown(cell: Cell) -> Cell:
    """A cell as the preview for later prompts keeps it."""
    if isinstance(cell, str) and len(cell) > PREVIEW_CHARACTERS:
        return cell[:PREVIEW_CHARACTERS] + "…"
    if isinstance(cell, dict):
        return "(blob)" if "$blob" in cell else str(next(iter(cell.values())))
    return cell


def _summary(result: ExecuteResult) -> Json:
    """The result of an execution, as `NodeState.result` describes it."""
    return {
        "status": result.status,
        "columns": list(result.columns),
        "row_count": result.row_count,
        "truncated": result.truncated,
        "empty": result.empty,
        "preview": [[_shown(cell) for cell in row] for row in result.rows[:PREVIEW_ROWS]],
        "digest": result_digest(result.rows) if result.ok else "",
        "distinct_digest": distinct_digest(result.rows) if result.ok else "",
        "ordered_digest": ordered_digest(result.rows) if result.ok else "",
        "seconds": round(result.seconds, 6),
        "error": result.error,
    }
