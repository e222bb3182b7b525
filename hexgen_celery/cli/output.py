"""Tables and JSON for the terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPED_WIDTH = 200


def discard_output() -> None:
    """Let what is still buffered for standard output go nowhere: nobody reads it any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class PatientConsole(Console):
    """A console for which a reader that has read enough (`| head`) is no failure."""

    def on_broken_pipe(self) -> None:
        """End without a complaint."""
        discard_output()
        raise SystemExit(0)


console = PatientConsole(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")

_CELL_CHARS = 60


def print_json(value: Any) -> None:
    """One JSON value on one line."""
    click.echo(json.dumps(value, ensure_ascii=False, default=str))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A table whose cells are taken literally (no markup); numbers go to the right."""
    rows = [tuple(row) for row in rows]
    built = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left")
    for index, name in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row[index]) for row in rows)
        built.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        built.add_row(*(Text(cell(value)) for value in row))
    return built


def cell(value: Any) -> str:
    """A value as the text of one cell."""
    if value is None:
        return "—"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = text.replace("\n", " ")
    return text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 1] + "…"


def seconds(value: float | None) -> str:
    """A duration for a reader: `0.42 s`."""
    return "—" if value is None else f"{value:.2f} s"


def moment(unix_seconds: float | None) -> str:
    """A time of day with milliseconds, local."""
    if unix_seconds is None:
        return "—"
    return datetime.fromtimestamp(unix_seconds).strftime("%H:%M:%S.%f")[:-3]


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
