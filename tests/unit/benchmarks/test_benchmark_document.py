"""The table of results that docs/benchmarks.md shows."""

from __future__ import annotations

import pytest

from tests.benchmarks.document import BEGIN, END, insert, table
from tests.benchmarks.rows import measured


def test_a_missed_bar_is_shown_as_missed_with_its_spread() -> None:
    stamp = {"date": "2026-01-02T03:04:05+00:00", "machine": {"cores": 2}}
    text = table([measured("e2e.a", [1.0, 2.0, 9.0], "s", bar=1.5) | stamp])
    assert "cores 2" in text
    assert "| `e2e.a` | 2 | s | ≤ 1.5 | **missed** | 3 | 1 – 9 | 2026-01-02 |" in text


def test_the_table_replaces_the_one_before() -> None:
    page = insert(f"head\n{BEGIN}\nold\n{END}\ntail", "new")
    assert page == f"head\n{BEGIN}\nnew\n{END}\ntail"


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="results"):
        insert("no markers", "new")
