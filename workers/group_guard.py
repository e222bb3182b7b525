"""Ending a process group whose keeper was killed.

The kernel's parent death signal reaches only a keeper's direct child. What that child has started
(vLLM's engine, with all of a GPU's memory) would live on, so a second, tiny process watches the
keeper: it reads from a pipe that ends when the keeper does, however it ends.
"""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType
from typing import Self

_PROGRAM = """
import os, signal, sys
group = 0
for line in sys.stdin:
    group = int(line)
if group:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""
_NOTHING = 0
_END_SECONDS = 5.0


class GroupGuard:
    """Kills the group last named by `watch` when this process ends without leaving `with`."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        return self

    def watch(self, leader: int) -> None:
        """From now on, guard the group of `leader` instead of any other."""
        assert self._process.stdin is not None, "it was started with a pipe"
        self._process.stdin.write(f"{leader}\n")
        self._process.stdin.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.watch(_NOTHING)
        assert self._process.stdin is not None, "it was started with a pipe"
        self._process.stdin.close()
        self._process.wait(_END_SECONDS)
