"""What a benchmark reports: one row per measure, with its bar and how it was repeated."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal

Row = dict[str, Any]
FIELDS = ("name", "value", "unit", "bar", "better", "runs", "spread")


class BenchmarkSkipped(Exception):
    """Raised by a benchmark that cannot run here; the message says what is missing."""


def measured(
    name: str,
    values: Sequence[float],
    unit: str,
    *,
    bar: float | None = None,
    better: Literal["lower", "higher"] = "lower",
    **notes: object,
) -> Row:
    """A row from repeated runs: the median, and the range from lowest to highest as spread.

    `notes` are further facts worth keeping beside the number.
    """
    return {
        "name": name,
        "value": statistics.median(values),
        "unit": unit,
        "bar": bar,
        "better": better,
        "runs": len(values),
        "spread": [min(values), max(values)],
    } | notes


def meets_bar(row: Mapping[str, Any]) -> bool | None:
    """Whether the value keeps to the bar; None where there is no bar."""
    value, bar = row["value"], row["bar"]
    if bar is None or value is None:
        return None
    return bool(value <= bar if row["better"] == "lower" else value >= bar)


def problem_of(row: object) -> str:
    """What keeps `row` from being a row, or nothing."""
    if not isinstance(row, dict):
        return f"{row!r} is no row"
    missing = [field for field in FIELDS if field not in row]
    if missing:
        return f"{row.get('name', row)} lacks {', '.join(missing)}"
    if row["better"] not in ("lower", "higher"):
        return f"{row['name']}: better must be lower or higher"
    return ""
