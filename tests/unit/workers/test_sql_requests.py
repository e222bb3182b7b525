"""Running one database operation, over a sandbox that is told what to answer."""

from __future__ import annotations

import time

import pytest

from hexgen_celery.errors import RequestCancelled
from hexgen_celery.llm import CancelToken
from hexgen_celery.references import ClaimedRequest, RequestRef
from hexgen_celery.settings import SqlSettings
from hexgen_celery.sql.catalog import Catalog, Column, Table
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.execution import DatabaseFile, ExecuteRequest, ExecuteResult
from hexgen_celery.sql.metrics import distinct_digest, ordered_digest, result_digest
from hexgen_celery.workflows.definition import NodeKind, NodeSpec, SqlCall, Submission
from workers.sql_requests import ExecuteOperation, SqlExecutor, UnknownOperation

SETTINGS = SqlSettings(time_limit_seconds=10.0, max_rows=7, max_result_bytes=99)
ROWS: tuple[list[object], ...] = ([1, "x" * 500], [None, {"$blob": "00", "bytes": 1}])


def _request(call: SqlCall) -> ClaimedRequest:
    return ClaimedRequest(
        RequestRef("w", "execution.1", 1),
        NodeSpec("execution.1", NodeKind.SQL, "execute_sql", "execute", call),
        Submission("w", "text_to_sql", "q", "db", 60.0, 0.0, 60.0),
    )


class _Databases:
    def file(self, name: str) -> DatabaseFile:
        return DatabaseFile(f"/{name}.sqlite")

    def schema_names(self, name: str) -> SchemaNames:
        return SchemaNames(Catalog(name, (Table("hero", (Column("full name"),)),)))


class _Sandbox:
    """Compiles everything but what `faulty` gives an error for."""

    def __init__(self, result: ExecuteResult, faulty: dict[str, str] | None = None) -> None:
        self.result = result
        self.faulty = faulty or {}
        self.compiled: list[ExecuteRequest] = []
        self.requests: list[ExecuteRequest] = []
        self.killed: list[str] = []

    def execute(self, request: ExecuteRequest) -> ExecuteResult:
        if request.operation == "explain":
            self.compiled.append(request)
            error = self.faulty.get(request.sql, "")
            return ExecuteResult("error", error=error) if error else ExecuteResult("ok")
        self.requests.append(request)
        return self.result

    def cancel(self, token: str) -> bool:
        self.killed.append(token)
        return False


def _executor(sandbox: _Sandbox) -> SqlExecutor:
    return SqlExecutor({"execute": ExecuteOperation(sandbox, _Databases(), SETTINGS)})


def test_rows_travel_apart_from_their_summary() -> None:
    sandbox = _Sandbox(ExecuteResult("ok", ("a", "b"), ROWS, truncated=True, seconds=0.5))  # type: ignore[arg-type]
    done = _executor(sandbox).execute(_request(SqlCall("db", "SELECT 1")), CancelToken())
    (sent,) = sandbox.requests
    assert sent.database == DatabaseFile("/db.sqlite")
    assert sent.sql == "SELECT 1"
    assert (sent.limits.seconds, sent.limits.rows, sent.limits.result_bytes) == (10.0, 7, 99)
    assert done.bulk == {"columns": ["a", "b"], "rows": list(ROWS), "truncated": True}
    assert done.result == {
        "status": "ok",
        "columns": ["a", "b"],
        "row_count": 2,
        "truncated": True,
        "empty": False,
        "preview": [[1, "x" * 120 + "…"], [None, "(blob)"]],
        "digest": result_digest(ROWS),
        "distinct_digest": distinct_digest(ROWS),
        "ordered_digest": ordered_digest(ROWS),
        "seconds": 0.5,
        "error": "",
        "repairs": [],
        "fits": [],
    }
    assert [each.sql for each in sandbox.compiled] == ["SELECT 1"]


def test_a_faulty_statement_is_refused_before_it_runs() -> None:
    sql = "SELECT age FROM hero"
    sandbox = _Sandbox(ExecuteResult("ok"), {sql: "no such column: age"})
    done = _executor(sandbox).execute(_request(SqlCall("db", sql)), CancelToken())
    assert sandbox.requests == []
    assert done.result["status"] == "rejected"
    assert done.result["error"].startswith("no such column: age at SELECT age FROM hero")
    assert done.bulk == {"columns": [], "rows": [], "truncated": False}


def test_a_repaired_statement_runs_and_is_told() -> None:
    sql, mended = "SELECT full name FROM hero", "SELECT `full name` FROM hero"
    sandbox = _Sandbox(ExecuteResult("ok"), {sql: 'near "name": syntax error'})
    done = _executor(sandbox).execute(_request(SqlCall("db", sql)), CancelToken())
    assert [each.sql for each in sandbox.requests] == [mended]
    assert (done.result["sql"], done.result["repairs"]) == (mended, ["quote_name"])


def test_repairs_can_be_forbidden() -> None:
    sql = "SELECT full name FROM hero"
    sandbox = _Sandbox(ExecuteResult("ok"), {sql: 'near "name": syntax error'})
    call = SqlCall("db", sql, arguments={"repair": False})
    done = _executor(sandbox).execute(_request(call), CancelToken())
    assert sandbox.requests == []
    assert done.result["status"] == "rejected"


def test_a_hint_lets_a_statement_be_fitted_to_the_stored_values() -> None:
    sql, fitted = "SELECT 1 FROM hero WHERE `full name` = 'ada'", "'Ada'"
    sandbox = _Sandbox(ExecuteResult("ok", ("full name",), (["Ada"],)))
    call = SqlCall("db", sql, arguments={"hint": ""})
    done = _executor(sandbox).execute(_request(call), CancelToken())
    looked_up, ran = sandbox.requests
    assert "COLLATE NOCASE" in looked_up.sql
    assert ran.sql == sql.replace("'ada'", fitted)
    assert (done.result["sql"], done.result["fits"]) == (ran.sql, ["stored_spelling"])


def test_a_text_that_cannot_be_looked_up_stays() -> None:
    sql = "SELECT 1 FROM hero WHERE `full name` = 'ada'"
    sandbox = _Sandbox(ExecuteResult("timeout"))
    call = SqlCall("db", sql, arguments={"hint": ""})
    done = _executor(sandbox).execute(_request(call), CancelToken())
    assert sandbox.requests[-1].sql == sql
    assert done.result["fits"] == []


def test_failing_sql_is_a_result() -> None:
    sandbox = _Sandbox(ExecuteResult("error", error="no such column: x"))
    done = _executor(sandbox).execute(_request(SqlCall("db", "SELECT x")), CancelToken())
    assert done.result["status"] == "error"
    assert done.result["error"] == "no such column: x"
    assert done.result["digest"] == ""


@pytest.mark.parametrize(("own", "limit"), [(2.0, 2.0), (60.0, 10.0)])
def test_a_request_may_lower_the_time_limit_only(own: float, limit: float) -> None:
    sandbox = _Sandbox(ExecuteResult("ok"))
    call = SqlCall("db", "SELECT 1", time_limit_seconds=own)
    _executor(sandbox).execute(_request(call), CancelToken())
    assert sandbox.requests[0].limits.seconds == limit


def test_a_killed_statement_is_a_cancelled_request() -> None:
    sandbox = _Sandbox(ExecuteResult("cancelled"))
    with pytest.raises(RequestCancelled):
        _executor(sandbox).execute(_request(SqlCall("db", "SELECT 1")), CancelToken())


def test_nothing_runs_once_cancelled_and_the_kill_is_tried_twice() -> None:
    sandbox, cancel = _Sandbox(ExecuteResult("ok")), CancelToken()
    cancel.set("deadline")
    with pytest.raises(RequestCancelled, match="deadline"):
        _executor(sandbox).execute(_request(SqlCall("db", "SELECT 1")), cancel)
    assert sandbox.requests == []
    until = time.monotonic() + 5
    while len(sandbox.killed) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert sandbox.killed == ["w/execution.1/1"] * 2


def test_an_unknown_operation_names_those_there_are() -> None:
    with pytest.raises(UnknownOperation, match="known: execute"):
        _executor(_Sandbox(ExecuteResult("ok"))).execute(
            _request(SqlCall("db", "", op="explode")), CancelToken()
        )
