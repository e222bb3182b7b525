"""Finding the columns that a question's words describe, by names, titles and descriptions.

Words that few columns have count for more (the inverse document frequency of BM25, Robertson and
Zaragoza 2009); a word in a name counts for more than one in a description.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hexgen_celery.sql.catalog import Catalog, Column

_BORDERS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")
_STEM_CHARS = 4
_SILENT = frozenset({"a", "an", "and", "by", "for", "in", "is", "of", "on", "or", "the", "to"})


@dataclass(frozen=True, slots=True)
class ColumnWeights:
    """What a word counts for in each place where a column may have it, and the least total score
    worth telling, as a share of the best column's."""

    name: float = 1.0
    title: float = 0.8
    table: float = 0.5
    description: float = 0.4
    least_share: float = 0.2


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column that matches; `score` only orders, within one search."""

    table: str
    column: str
    score: float

    @property
    def path(self) -> str:
        """`table.column`."""
        return f"{self.table}.{self.column}"


def search_columns(
    catalog: Catalog, keywords: Iterable[str], limit: int, weights: ColumnWeights | None = None
) -> list[FoundColumn]:
    """At most `limit` columns that share words with the keywords, the best first."""
    weights = weights or ColumnWeights()
    asked = {stem for keyword in keywords for stem in stems(keyword)}
    columns = [(table.name, column) for table in catalog.tables for column in table.columns]
    documents = [_words(table, column, weights) for table, column in columns]
    rarity = _rarities(documents)
    found = [
        FoundColumn(
            table, column.name, sum(words[word] * rarity[word] for word in asked & words.keys())
        )
        for (table, column), words in zip(columns, documents, strict=True)
    ]
    ranked = sorted((each for each in found if each.score > 0), key=_rank)[:limit]
    return [each for each in ranked if each.score >= weights.least_share * ranked[0].score]


def stems(text: str) -> set[str]:
    """The words of a text or name, small, without the endings of plurals and participles, and
    without articles, conjunctions and the like."""
    words = (word.lower() for word in _BORDERS.split(text) if word)
    return {_stem(word) for word in words if word not in _SILENT}


def _stem(word: str) -> str:
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_CHARS - 1:
            return word.removesuffix(ending) + ("y" if ending == "ies" else "")
    return word.removesuffix("e") if len(word) > _STEM_CHARS else word


def _words(table: str, column: Column, weights: ColumnWeights) -> dict[str, float]:
    """Each word of a column with the weight of the best place it is in."""
    texts = (
        (weights.description, f"{column.description} {column.value_description}"),
        (weights.table, table),
        (weights.title, column.title),
        (weights.name, column.name),
    )
    return {word: weight for weight, text in texts for word in stems(text)}


def _rarities(documents: list[dict[str, float]]) -> dict[str, float]:
    counts = Counter(word for words in documents for word in words)
    total = len(documents)
    return {
        word: math.log(1 + (total - count + 0.5) / (count + 0.5)) for word, count in counts.items()
    }


def _rank(found: FoundColumn) -> tuple[float, str, str]:
    return (-found.score, found.table, found.column)
