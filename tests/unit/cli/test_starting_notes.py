"""What is seen while a cluster starts."""

from __future__ import annotations

import io
import os
from pathlib import Path

from rich.console import Console

from hexgen_celery.cli.starting_notes import StartingNotes, last_words

LOADING = "(EngineCore pid=12) INFO 11-30 10:26:27 [weight_utils.py:99] Loading weights took 2 s"
BANNER = "(APIServer pid=11) INFO 11-30 10:26:27 [api_utils.py:347]    ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀"


def _log(logs: Path, name: str, *lines: str, age: float = 0.0) -> None:
    path = logs / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.utime(path, (1_000_000 - age, 1_000_000 - age))


def test_the_last_line_that_says_something_is_quoted_without_its_place(tmp_path: Path) -> None:
    _log(tmp_path, "vllm-cpu-1.log", LOADING, BANNER, "")
    _log(tmp_path, "vllm-cpu-2.log", "an older word", age=60.0)
    _log(tmp_path, "control-1.log", "a log of another program")
    assert last_words(tmp_path) == "vllm-cpu-1: Loading weights took 2 s"


def test_a_line_is_cut(tmp_path: Path) -> None:
    _log(tmp_path, "vllm-cpu-1.log", "x" * 500)
    assert last_words(tmp_path) == f"vllm-cpu-1: {'x' * 90}"


def test_without_words_there_is_nothing_to_quote(tmp_path: Path) -> None:
    assert last_words(tmp_path / "missing") == ""
    _log(tmp_path, "vllm-cpu-1.log", BANNER)
    assert last_words(tmp_path) == ""


def test_something_is_said_every_ten_seconds(tmp_path: Path) -> None:
    _log(tmp_path, "vllm-cpu-1.log", LOADING)
    times = iter([100.0, 109.0, 110.5, 110.5, 111.0, 121.0, 121.0])
    output = io.StringIO()
    notes = StartingNotes(Console(file=output, width=120), tmp_path, now=lambda: next(times))
    for _ in range(4):
        notes()
    assert output.getvalue().splitlines() == [
        "starting, 10 s; vllm-cpu-1: Loading weights took 2 s",
        "starting, 21 s; vllm-cpu-1: Loading weights took 2 s",
    ]
