"""`python -m tests.benchmarks.document`: put the results of build/bench.json into the docs.

A measure that the page has and the file has not keeps its line: the page outlives a clone's file.
"""

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


def table(rows: list[Row], earlier: str = "") -> str:
    """The rows as a Markdown table, after the machine they were measured on.

    Lines of the table `earlier` whose measures `rows` lack stay as they are.
    """
    machine = max(rows, key=lambda row: row["date"])["machine"]
    where = ", ".join(f"{name} {value}" for name, value in machine.items())
    lines = _lines_by_name(earlier) | {row["name"]: _line(row) for row in rows}
    body = [lines[name] for name in sorted(lines)]
    return "\n".join([f"Measured on: {where}.", "", HEAD, *body])


def _lines_by_name(text: str) -> dict[str, str]:
    return {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}


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


def updated(page: str, rows: list[Row]) -> str:
    """`page` with the rows in the table between its markers; ValueError when it has none."""
    before, begin, rest = page.partition(BEGIN)
    earlier, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{table(rows, earlier)}\n{END}{after}"


def main() -> int:
    """Rewrite the results of the page; 1 when nothing has been measured."""
    rows = ledger.read()
    if not rows:
        sys.stderr.write(f"{ledger.PATH} holds no results: run `make bench` first\n")
        return 1
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
