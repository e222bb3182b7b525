"""The sandbox program's request handling, in this process (the pool tests run it for real)."""

from __future__ import annotations

import io
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hexgen_celery.sql.wire import encode_frame
from workers import sandbox

RECURSION = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "data.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO item VALUES (?, ?)", [(n, f"n{n}") for n in range(10)])
    connection.close()
    return path


def ask(path: Path, sql: str, **changes: Any) -> dict[str, Any]:
    request = {
        "id": 1,
        "op": "execute",
        "path": str(path),
        "immutable": False,
        "sql": sql,
        "seconds": 5.0,
        "rows": 100,
        "bytes": 10_000,
        **changes,
    }
    connections = sandbox.Connections(heap_bytes=0)
    try:
        return sandbox.serve_one(connections, request)
    finally:
        connections.close()


def test_rows_and_columns(database: Path) -> None:
    result = ask(database, "SELECT id, name AS n FROM item ORDER BY id LIMIT 2")
    assert result["status"] == "ok"
    assert result["columns"] == ["id", "n"]
    assert result["rows"] == [[0, "n0"], [1, "n1"]]
    assert not result["truncated"]
    assert result["id"] == 1


@pytest.mark.parametrize(("rows", "kept", "truncated"), [(9, 9, True), (10, 10, False)])
def test_row_limit(database: Path, rows: int, kept: int, truncated: bool) -> None:
    result = ask(database, "SELECT id FROM item", rows=rows)
    assert (len(result["rows"]), result["truncated"]) == (kept, truncated)


def test_byte_limit_truncates_between_rows(database: Path) -> None:
    result = ask(database, "SELECT name FROM item", bytes=12)
    assert (len(result["rows"]), result["truncated"]) == (2, True)


def test_one_row_beyond_the_byte_limit_is_too_large(database: Path) -> None:
    result = ask(database, "SELECT printf('%5000s', 'x')", bytes=1000)
    assert result["status"] == "too_large"


def test_a_value_beyond_sqlites_limit_is_too_large(database: Path) -> None:
    result = ask(database, "SELECT length(group_concat(printf('%300000s', id))) FROM item")
    assert result["status"] == "too_large"


def test_time_limit(database: Path) -> None:
    result = ask(database, f"SELECT count(*) FROM ({RECURSION})", seconds=0.1)
    assert result["status"] == "timeout"


@pytest.mark.parametrize(
    ("sql", "status", "text"),
    [
        ("SELECT nope FROM item", "error", "no such column: nope"),
        ("SELECT * FROM missing", "error", "no such table"),
        ("SELEC 1", "error", "syntax error"),
        ("", "error", "no statement"),
        ("-- only a comment", "error", "no statement"),
        ("SELECT 1\0", "error", "null character"),
        ("SELECT 1; SELECT 2", "rejected", "one statement"),
        ("DELETE FROM item", "rejected", "DELETE"),
    ],
)
def test_failures_say_why(database: Path, sql: str, status: str, text: str) -> None:
    result = ask(database, sql)
    assert result["status"] == status
    assert text in result["error"]


def test_explain_compiles_without_running(database: Path) -> None:
    assert ask(database, RECURSION, op="explain")["status"] == "ok"
    assert "nope" in ask(database, "SELECT nope FROM item", op="explain")["error"]


def test_a_rejection_does_not_stick(database: Path) -> None:
    connections = sandbox.Connections(heap_bytes=0)
    base = {"op": "execute", "path": str(database), "immutable": False}
    limits = {"seconds": 1.0, "rows": 10, "bytes": 1000}
    first = sandbox.serve_one(connections, {**base, **limits, "id": 1, "sql": "DELETE FROM item"})
    second = sandbox.serve_one(connections, {**base, **limits, "id": 2, "sql": "SELECT 1"})
    connections.close()
    assert (first["status"], second["status"]) == ("rejected", "ok")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "unable to open" in ask(tmp_path / "absent", "SELECT 1")["error"]
    text = tmp_path / "text.sqlite"
    text.write_text("this is not a database, it only has the name of one")
    assert "not a database" in ask(text, "SELECT 1")["error"]


def test_a_replaced_file_is_read_anew(database: Path) -> None:
    connections = sandbox.Connections(heap_bytes=0)
    assert connections.get(str(database), False)[0].execute("SELECT count(*) FROM item").fetchone()
    other = database.with_suffix(".new")
    with sqlite3.connect(other) as writer:
        writer.execute("CREATE TABLE other (a)")
    writer.close()
    os.replace(other, database)
    names = connections.get(str(database), False)[0].execute("SELECT name FROM sqlite_master")
    assert names.fetchall() == [("other",)]
    connections.close()


def test_only_few_databases_stay_open(tmp_path: Path) -> None:
    connections = sandbox.Connections(heap_bytes=0)
    for number in range(sandbox.OPEN_DATABASES + 3):
        path = tmp_path / f"{number}.sqlite"
        sqlite3.connect(path).close()
        path.touch()
        connections.get(str(path), False)
    assert len(connections._open) == sandbox.OPEN_DATABASES
    connections.close()


def test_serve_greets_and_answers_until_the_input_ends(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "allow_cpu", lambda _seconds: None)
    request = {"id": 7, "op": "execute", "path": str(database), "immutable": False}
    request |= {"sql": "SELECT 1", "seconds": 1.0, "rows": 1, "bytes": 100}
    sink = io.BytesIO()
    sandbox.serve(io.BytesIO(encode_frame(request)), sink, 0)
    sink.seek(0)
    greeting, answer = sandbox.read_requests(sink)
    assert greeting["ready"] is True
    assert (answer["id"], answer["rows"]) == (7, [[1]])


def test_an_answer_that_cannot_be_sent_is_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def once(message: dict[str, Any]) -> bytes:
        calls.append(message)
        if len(calls) == 1:
            raise MemoryError
        return b"sent"

    monkeypatch.setattr(sandbox, "encode_frame", once)
    sink = io.BytesIO()
    sandbox.write_answer(sink, {**sandbox.answer(["a"], [[1]]), "id": 3, "seconds": 0.1})
    assert sink.getvalue() == b"sent"
    assert calls[1]["status"] == "too_large"
    assert calls[1]["rows"] == []
