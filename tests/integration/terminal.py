"""A program on a terminal of its own, as a person would use it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

PATIENCE = 60.0
_CHUNK = 65536


class TerminalProgram:
    """Runs `command`; `type` presses keys, `wait_for` waits for what is drawn.

    `seen` is all that was drawn.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.seen = b""
        self._controller, terminal = pty.openpty()
        self._process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._controller)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._controller, keys)

    def wait_for(self, text: bytes, times: int = 1) -> bytes:
        """All that is drawn until `text` was drawn so often from now on."""
        seen, until = b"", time.monotonic() + PATIENCE
        while seen.count(text) < times:
            assert time.monotonic() < until, seen[-2000:]
            seen += self._read(0.5)
        return seen

    def status(self, pressing: bytes) -> int:
        """Press a key and wait for the end; a program cannot end while its terminal is full."""
        self.type(pressing)
        until = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < until:
            self._read(0.2)
        return self._process.wait(1.0)

    def attributes(self) -> list[Any]:
        """How the terminal is set up: echo, lines or single keys, and more."""
        return termios.tcgetattr(self._controller)

    def _read(self, seconds: float) -> bytes:
        with contextlib.suppress(OSError):
            if select.select([self._controller], [], [], seconds)[0]:
                drawn = os.read(self._controller, _CHUNK)
                self.seen += drawn
                return drawn
        return b""


def _take_terminal() -> None:
    """Make the child's standard input the terminal that Ctrl-C comes from."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
