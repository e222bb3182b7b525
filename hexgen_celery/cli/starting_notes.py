"""What a person sees while a cluster starts: for how long, and what its vLLM server said last."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

_NOTE_SECONDS = 10.0
_TAIL_BYTES = 8192
_SHOWN_CHARS = 90
_PLACE = re.compile(r"^.*? \[[\w.]+:\d+\] ")
"""What vLLM begins its lines with: process, level, time, and the place in its code."""


class StartingNotes:
    """Called often while a cluster starts; says something every ten seconds."""

    def __init__(
        self, console: Console, logs: Path, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._logs = logs
        self._now = now
        self._began = now()
        self._due = self._began + _NOTE_SECONDS

    def __call__(self) -> None:
        if self._now() < self._due:
            return
        self._due += _NOTE_SECONDS
        parts = (f"starting, {self._now() - self._began:.0f} s", last_words(self._logs))
        line = "; ".join(filter(None, parts))
        self._console.print(Text(line, style="dim"), soft_wrap=True)


def last_words(logs: Path) -> str:
    """The last line that says something in the vLLM log written last, with its name in front."""
    written = sorted(logs.glob("vllm-*.log"), key=lambda path: path.stat().st_mtime)
    if not written:
        return ""
    tail = written[-1].read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace")
    said = (_PLACE.sub("", line).strip() for line in reversed(tail.splitlines()))
    words = next((line for line in said if line[:1].isascii() and line[:1].isalpha()), "")
    return f"{written[-1].stem}: {words[:_SHOWN_CHARS]}" if words else ""
