"""The table of results that docs/benchmarks.md shows."""

from __future__ import annotations

import pytest

from tests.benchmarks.document import BEGIN, END, table, updated
from tests.benchmarks.rows import Row, measured


def row(name: str, *values: float) -> Row:
    stamp = {"date": "2026-01-02T03:04:05+00:00", "machine": {"cores": 2}}
    return measured(name, values, "s", bar=1.5) | stamp


def test_a_missed_bar_is_shown_as_missed_with_its_spread() -> None:
    text = table([row("e2e.a", 1.0, 2.0, 9.0)])
    assert "cores 2" in text
    assert "| `e2e.a` | 2 | s | ≤ 1.5 | **missed** | 3 | 1 – 9 | 2026-01-02 |" in text


def test_a_measure_made_again_replaces_its_line_and_others_keep_theirs() -> None:
    page = updated(f"head\n{BEGIN}\n{END}\ntail", [row("e2e.a", 1.0), row("e2e.b", 1.0)])
    page = updated(page, [row("e2e.b", 7.0)])
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    assert [line.split(" | ")[:2] for line in lines] == [["| `e2e.a`", "1"], ["| `e2e.b`", "7"]]
    assert page.startswith(f"head\n{BEGIN}\n")
    assert page.endswith(f"\n{END}\ntail")


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="results"):
        updated("no markers", [row("e2e.a", 1.0)])
