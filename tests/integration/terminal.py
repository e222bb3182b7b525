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
from typing import Self

PATIENCE = 60.0
AGAIN_SECONDS = 10.0
_CHUNK = 65536


class TerminalProgram:
    """Runs `command`; `type` presses keys, `wait_for` waits for what is drawn."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
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
        """Press a key until it has ended; a program cannot end while its terminal is full.

        Again after a while, as people do: Python drops a Ctrl-C that comes while it cleans up.
        """
        began = pressed = time.monotonic()
        self.type(pressing)
        while self._process.poll() is None and time.monotonic() < began + PATIENCE:
            self._read(0.2)
            if time.monotonic() > pressed + AGAIN_SECONDS and self._process.poll() is None:
                pressed = time.monotonic()
                self.type(pressing)
        return self._process.wait(1.0)

    def _read(self, seconds: float) -> bytes:
        with contextlib.suppress(OSError):
            if select.select([self._controller], [], [], seconds)[0]:
                return os.read(self._controller, _CHUNK)
        return b""


def _take_terminal() -> None:
    """Make the child's standard input the terminal that Ctrl-C comes from."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
