"""What a database has for the keywords of a question: stored texts and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hexgen_celery.sql.catalog import Catalog
from hexgen_celery.sql.catalog_search import search_columns
from hexgen_celery.sql.value_index import ValueIndex

MAX_KEYWORDS = 60
MAX_KEYWORD_CHARS = 100
MAX_COLUMNS = 20


def retrieve(
    catalog: Catalog, index: ValueIndex | None, keywords: Sequence[object]
) -> dict[str, Any]:
    """`values` (`table`, `column`, `value`, `keyword`, `score`) and `columns` (`table.column`), the
    nearest first, as plain JSON values; `indexed` says whether there was an index to search."""
    asked = [str(each)[:MAX_KEYWORD_CHARS] for each in keywords[:MAX_KEYWORDS]]
    values = index.search(asked) if index is not None else []
    return {
        "values": [asdict(each) for each in values],
        "columns": [column.path for column in search_columns(catalog, asked, MAX_COLUMNS)],
        "indexed": index is not None,
    }
