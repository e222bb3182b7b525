"""Single keys from the terminal, without waiting for Enter."""

from __future__ import annotations

import select
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Any, Self


class Keyboard:
    """Reads keys between `__enter__` and `__exit__`, where standard input is a terminal."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if sys.stdin.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def pressed(self, seconds: float) -> str:
        """The key that is pressed within `seconds`; "" after that time without one."""
        if self._before is None:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return sys.stdin.read(1) if ready else ""
