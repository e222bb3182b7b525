"""`make bench [AREA=e2e,sim]`: runs bench_<area>_*.py and keeps the results in build/bench.json.

Each module offers `run() -> list[Row]` (see `rows`). A missed bar is marked, not an error; a
benchmark that crashes is.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from tests.benchmarks import ledger
from tests.benchmarks.rows import BenchmarkSkipped, Row, meets_bar, problem_of

HERE = Path(__file__).parent
FILE_WIDTH = 140


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One module of benchmarks, `bench_<area>_<subject>.py`."""

    area: str
    module: str


@dataclass(slots=True)
class AreaResult:
    """What the modules of one area gave."""

    rows: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    crashed: bool = False


def discover(directory: Path = HERE) -> list[Benchmark]:
    """All benchmark modules, by name."""
    names = sorted(path.stem for path in directory.glob("bench_*_*.py"))
    return [Benchmark(name.split("_")[1], name) for name in names]


def choose(benchmarks: Sequence[Benchmark], areas: str, subject: str) -> list[Benchmark]:
    """Those of the comma-separated `areas` (all if empty) whose name contains `subject`."""
    wanted = {area.strip() for area in areas.split(",") if area.strip()}
    return [b for b in benchmarks if (not wanted or b.area in wanted) and subject in b.module]


def run_all(benchmarks: Sequence[Benchmark], console: Console) -> dict[str, AreaResult]:
    """Run the modules one after another; results are recorded as soon as each is done."""
    results: dict[str, AreaResult] = {}
    for benchmark in benchmarks:
        result = results.setdefault(benchmark.area, AreaResult())
        _run_one(benchmark, result, console)
        ledger.record(result.rows)
    return results


def _run_one(benchmark: Benchmark, result: AreaResult, console: Console) -> None:
    console.print(f"[dim]{benchmark.module} …[/dim]")
    started = time.monotonic()
    try:
        rows = importlib.import_module(f"tests.benchmarks.{benchmark.module}").run()
    except BenchmarkSkipped as reason:
        result.problems.append(f"{benchmark.module} skipped: {reason}")
    except Exception as error:
        traceback.print_exc()
        result.crashed = True
        result.problems.append(f"{benchmark.module} crashed: {error!r}")
    else:
        faults = [fault for fault in map(problem_of, rows) if fault]
        result.crashed |= bool(faults)
        result.problems += faults
        result.rows += [row for row in rows if not problem_of(row)]
    console.print(f"[dim]{benchmark.module}: {time.monotonic() - started:.0f} s[/dim]")


def table(results: dict[str, AreaResult]) -> Table:
    """The results as a table, one line per measure."""
    grid = Table(
        Column("measure", overflow="fold", min_width=50),
        "value",
        "unit",
        "bar",
        "runs",
        "spread",
        "",
    )
    for result in results.values():
        for row in result.rows:
            grid.add_row(*_cells(row))
    return grid


def _cells(row: Row) -> tuple[str, ...]:
    sign = "≤" if row["better"] == "lower" else "≥"
    bar = "" if row["bar"] is None else f"{sign} {row['bar']:g}"
    verdict = {None: "", True: "[green]met[/green]", False: "[red]MISSED[/red]"}[meets_bar(row)]
    spread = row["spread"]
    span = "–".join(map(_number, spread)) if isinstance(spread, list | tuple) else _number(spread)
    return (row["name"], _number(row["value"]), row["unit"], bar, str(row["runs"]), span, verdict)


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 when a benchmark crashed or none matches."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--area", default="", help="only these areas, comma-separated")
    parser.add_argument("--only", default="", help="only modules whose name contains this")
    options = parser.parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=FILE_WIDTH)
    chosen = choose(discover(), options.area, options.only)
    if not chosen:
        known = ", ".join(sorted({benchmark.area for benchmark in discover()}))
        console.print(f"no benchmark matches; areas: {known}")
        return 1
    results = run_all(chosen, console)
    console.print(table(results))
    for result in results.values():
        for problem in result.problems:
            console.print(f"[yellow]{problem}[/yellow]")
    console.print(f"recorded in {ledger.PATH}")
    return int(any(result.crashed for result in results.values()))


if __name__ == "__main__":
    raise SystemExit(main())
