"""Looking up a question's keywords on an sql worker, over a real file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from hexgen_celery.errors import RequestCancelled, UnknownDatabase
from hexgen_celery.llm import CancelToken
from hexgen_celery.references import ClaimedRequest, RequestRef
from hexgen_celery.sql.databases import DatabaseRegistry
from hexgen_celery.workflows.definition import NodeKind, NodeSpec, SqlCall, Submission
from workers.sql_databases import RegisteredDatabases
from workers.sql_retrieval import RetrieveOperation


class _Texts:
    """A hash in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def get(self, field: str) -> str | None:
        return self.texts.get(field)

    def put(self, field: str, text: str) -> None:
        self.texts[field] = text

    def names(self) -> list[str]:
        return list(self.texts)

    def delete(self, field: str) -> None:
        self.texts.pop(field, None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "town.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE town (name TEXT, inhabitants INTEGER)")
        connection.execute("INSERT INTO town VALUES ('Bergen', 290000)")
    connection.close()
    return path


@pytest.fixture
def registry(path: Path, tmp_path: Path) -> DatabaseRegistry:
    registry = DatabaseRegistry(_Texts(), _Texts(), tmp_path / "home")
    registry.add(path)
    return registry


def request(*keywords: object, database: str = "town") -> tuple[ClaimedRequest, SqlCall]:
    call = SqlCall(database, "", op="retrieve", arguments={"keywords": list(keywords)})
    spec = NodeSpec("retrieve", NodeKind.SQL, "execute_sql", "retrieve", call)
    submission = Submission("w", "text_to_sql", "q", database, 60.0, 0.0, 60.0)
    return ClaimedRequest(RequestRef("w", "retrieve", 1), spec, submission), call


def test_values_and_columns_are_found(registry: DatabaseRegistry) -> None:
    operation = RetrieveOperation(RegisteredDatabases(registry))
    done = operation(*request("bergen", "inhabitant", 7, "x" * 10_000), CancelToken())
    (value,) = done.result["values"]
    assert (value["table"], value["column"], value["value"]) == ("town", "name", "Bergen")
    assert done.result["columns"] == ["town.inhabitants"]
    assert done.bulk is None


def test_a_changed_file_is_read_again(registry: DatabaseRegistry, path: Path) -> None:
    databases = RegisteredDatabases(registry)
    before = databases.schema_names("town")
    assert databases.schema_names("town") is before
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mayor (name TEXT)")
        connection.execute("INSERT INTO mayor VALUES ('Ada Lien')")
    connection.close()
    done = RetrieveOperation(databases)(*request("ada lien", "mayor"), CancelToken())
    assert [each["value"] for each in done.result["values"]] == ["Ada Lien"]
    assert databases.schema_names("town").holders("name") == ("town", "mayor")
    assert databases.file("town").path == str(path)


def test_a_worker_elsewhere_builds_its_own_index(registry: DatabaseRegistry) -> None:
    for built in registry._snapshots.glob("*.values"):
        built.unlink()
    done = RetrieveOperation(RegisteredDatabases(registry))(*request("bergen"), CancelToken())
    assert done.result["indexed"] is True
    assert done.result["values"]


def test_cancelled_and_unknown(registry: DatabaseRegistry) -> None:
    operation, cancel = RetrieveOperation(RegisteredDatabases(registry)), CancelToken()
    with pytest.raises(UnknownDatabase):
        operation(*request("x", database="nowhere"), cancel)
    cancel.set("deadline")
    with pytest.raises(RequestCancelled, match="deadline"):
        operation(*request("x"), cancel)
