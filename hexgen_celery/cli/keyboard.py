"""Single keys from the terminal, without waiting for Enter."""

from __future__ import annotations

import os
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Self

_MOST = 64


class Keyboard:
    """Reads keys between `__enter__` and `__exit__`, where standard input is a terminal."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    @property
    def is_there(self) -> bool:
        """Whether keys can be read."""
        return self._before is not None

    def __enter__(self) -> Self:
        if sys.stdin.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            # Keys that were pressed before now stay to be read.
            tty.setcbreak(sys.stdin, termios.TCSANOW)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def fileno(self) -> int:
        """Readable when a key was pressed."""
        return sys.stdin.fileno()

    def keys(self) -> bytes:
        """The keys that were pressed, once `fileno()` is readable; none of a terminal that left."""
        try:
            return os.read(self.fileno(), _MOST)
        except OSError:
            return b""
