"""`python -m tests.benchmarks.document`: put the results of build/bench.json into the docs."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.benchmarks import ledger
from tests.benchmarks.rows import Row, meets_bar

PAGE = Path("docs/benchmarks.md")
BEGIN, END = "<!-- results -->", "<!-- /results -->"
HEAD = (
    "| measure | value | unit | bar | | runs | spread | date |\n|---|---|---|---|---|---|---|---|"
)
VERDICT = {None: "", True: "met", False: "**missed**"}


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table, after the machine they were measured on."""
    machine = max(rows, key=lambda row: row["date"])["machine"]
    where = ", ".join(f"{name} {value}" for name, value in machine.items())
    return "\n".join([f"Measured on: {where}.", "", HEAD, *map(_line, rows)])


def _line(row: Row) -> str:
    sign = "≤" if row["better"] == "lower" else "≥"
    bar = "" if row["bar"] is None else f"{sign} {row['bar']:g}"
    spread = row["spread"]
    span = " – ".join(map(_number, spread)) if isinstance(spread, list | tuple) else _number(spread)
    cells = (
        f"`{row['name']}`",
        _number(row["value"]),
        row["unit"],
        bar,
        VERDICT[meets_bar(row)],
        str(row["runs"]),
        span,
        row["date"][:10],
    )
    return "| " + " | ".join(cells) + " |"


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value or "")


def insert(page: str, text: str) -> str:
    """`page` with `text` between its markers; ValueError when it has none."""
    before, begin, rest = page.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main() -> int:
    """Rewrite the results of the page; 1 when nothing has been measured."""
    rows = ledger.read()
    if not rows:
        sys.stderr.write(f"{ledger.PATH} holds no results: run `make bench` first\n")
        return 1
    PAGE.write_text(insert(PAGE.read_text(encoding="utf-8"), table(rows)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
