"""Statistics of one column: how many values, which, between what, and of what shape."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from hexgen_celery.sql.catalog import SampleValue
from hexgen_celery.sql.identifiers import quote_always

T = TypeVar("T")

Attempt = Callable[[Callable[[], T]], T | None]
"""Runs a reading function; None where the content cannot be read or the time is up."""

_DIGITS = re.compile(r"\d")
_CAPITALS = re.compile(r"[A-Z]+")
_SMALL = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class StatisticsBounds:
    """How much of a column is read: rows, most frequent values kept, characters per value, values
    that shapes are told from; and which shapes are told: at most so many, each covering at least
    `shape_share` of the values, of at most `shape_chars`."""

    rows: int = 100_000
    values: int = 5
    value_chars: int = 80
    shape_values: int = 500
    shapes: int = 2
    shape_share: float = 0.2
    shape_chars: int = 24


@dataclass(frozen=True, slots=True)
class Statistics:
    """What `Column` holds about its values; empty where nothing could be read."""

    samples: tuple[SampleValue, ...] = ()
    nulls: int | None = None
    distinct: int | None = None
    minimum: SampleValue | None = None
    maximum: SampleValue | None = None
    shapes: tuple[str, ...] = ()


class StatisticsReader:
    """Reads the statistics of columns of one open database."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        bounds: StatisticsBounds,
        attempt: Callable[[Callable[[], Any]], Any],
    ) -> None:
        self._connection = connection
        self._bounds = bounds
        self._attempt = attempt

    def read(self, table: str, column: str) -> Statistics:
        """The statistics of `table.column` over its first rows."""
        source = (
            f"(SELECT {quote_always(column)} AS v FROM {quote_always(table)}"
            f" LIMIT {self._bounds.rows})"
        )
        samples = self._samples(source)
        counts = self._attempt(lambda: self._counts(source)) or (None, None, None, None)
        nulls, distinct, minimum, maximum = counts
        texts = any(isinstance(value, str) for value in samples)
        shapes = self._attempt(lambda: self._shapes(source)) if texts else None
        return Statistics(
            samples, nulls, distinct, self._shown(minimum), self._shown(maximum), shapes or ()
        )

    def _samples(self, source: str) -> tuple[SampleValue, ...]:
        query = (
            f"SELECT v FROM {source} WHERE v IS NOT NULL AND typeof(v) <> 'blob'"
            f" GROUP BY v ORDER BY count(*) DESC, v LIMIT {self._bounds.values}"
        )
        rows = self._attempt(lambda: self._connection.execute(query).fetchall()) or []
        return tuple(shortened(row[0], self._bounds.value_chars) for row in rows)

    def _counts(self, source: str) -> tuple[Any, ...]:
        figures = "count(*) - count(v), count(DISTINCT v), min(nullif(v, '')), max(v)"
        query = f"SELECT {figures} FROM {source}"
        row: tuple[Any, ...] = self._connection.execute(query).fetchone()
        return row

    def _shapes(self, source: str) -> tuple[str, ...]:
        query = (
            f"SELECT DISTINCT v FROM {source} WHERE typeof(v) = 'text'"
            f" LIMIT {self._bounds.shape_values}"
        )
        values = [row[0] for row in self._connection.execute(query)]
        return common_shapes(values, self._bounds)

    def _shown(self, value: Any) -> SampleValue | None:
        if isinstance(value, str | int | float):
            return shortened(value, self._bounds.value_chars)
        return None


def shape(text: str) -> str:
    """The form of a text: each digit becomes 9, a run of capitals A, a run of small letters a."""
    return _SMALL.sub("a", _CAPITALS.sub("A", _DIGITS.sub("9", text)))


def common_shapes(values: Iterable[str], bounds: StatisticsBounds) -> tuple[str, ...]:
    """The shapes that tell how values are written (dates, codes), the commonest first.

    None where most values are words, or all look different.
    """
    listed = [value for value in values if value]
    counts = Counter(shape(value) for value in listed if len(value) <= bounds.shape_chars)
    common = [
        form
        for form, count in counts.most_common(bounds.shapes)
        if count >= bounds.shape_share * len(listed)
    ]
    return tuple(form for form in common if "9" in form and "a" not in form)


def shortened(value: SampleValue, limit: int) -> SampleValue:
    """The value, a long text cut with a mark."""
    if isinstance(value, str) and len(value) > limit:
        return value[: limit - 1] + "…"
    return value
