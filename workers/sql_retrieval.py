"""`retrieve`: the stored texts and the columns that a question's keywords resemble.

Runs where the database files are, so that neither GPU hosts nor control workers need them.
"""

from __future__ import annotations

from typing import Protocol

from hexgen_celery.errors import RequestCancelled
from hexgen_celery.llm import CancelToken
from hexgen_celery.references import ClaimedRequest
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.retrieval import retrieve
from hexgen_celery.sql.value_index import ValueIndex
from hexgen_celery.workflows.definition import SqlCall
from workers.requests import Done


class IndexedDatabases(Protocol):
    """Registered databases with what is indexed of them."""

    def schema_names(self, name: str) -> SchemaNames:
        """The names in its catalog; raises `UnknownDatabase`."""
        ...

    def values(self, name: str) -> ValueIndex | None:
        """The index of its texts; None where there can be none."""
        ...


class RetrieveOperation:
    """Looks the argument `keywords` up; answers `values` and `columns` (the nearest first)."""

    def __init__(self, databases: IndexedDatabases) -> None:
        self._databases = databases

    def __call__(self, request: ClaimedRequest, call: SqlCall, cancel: CancelToken) -> Done:
        if cancel.is_set:
            raise RequestCancelled(f"{request.ref.node_id} was cancelled ({cancel.reason})")
        catalog = self._databases.schema_names(call.database).catalog
        keywords = list(call.arguments.get("keywords") or ())
        return Done(retrieve(catalog, self._databases.values(call.database), keywords))
