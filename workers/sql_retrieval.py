"""`retrieve`: the stored texts and the columns that a question's keywords resemble.

Runs where the database files are, so that neither GPU hosts nor control workers need them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hexgen_celery.errors import RequestCancelled
from hexgen_celery.llm import CancelToken
from hexgen_celery.references import ClaimedRequest
from hexgen_celery.sql.catalog_search import search_columns
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.value_index import FoundValue, ValueIndex
from hexgen_celery.workflows.definition import Json, SqlCall
from workers.requests import Done

MAX_KEYWORDS = 60
MAX_KEYWORD_CHARS = 100
MAX_COLUMNS = 20


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
        keywords = _keywords(call)
        catalog = self._databases.schema_names(call.database).catalog
        columns = search_columns(catalog, keywords, MAX_COLUMNS)
        index = self._databases.values(call.database)
        values = index.search(keywords) if index is not None else []
        return Done(
            {
                "values": [_value(each) for each in values],
                "columns": [column.path for column in columns],
                "indexed": index is not None,
            }
        )


def _keywords(call: SqlCall) -> Sequence[str]:
    given = call.arguments.get("keywords") or ()
    return [str(each)[:MAX_KEYWORD_CHARS] for each in list(given)[:MAX_KEYWORDS]]


def _value(found: FoundValue) -> Json:
    return {
        "table": found.table,
        "column": found.column,
        "value": found.value,
        "keyword": found.keyword,
        "score": round(found.score, 3),
    }
