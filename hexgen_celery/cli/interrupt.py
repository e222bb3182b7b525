"""Ctrl-C that is never lost: while modules are imported, and while a command watches."""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import Any, Self


class Interrupt:
    """From `__enter__` to `__exit__` a SIGINT makes `fileno()` readable for good.

    Python's own handler raises KeyboardInterrupt wherever the program happens to be: it is lost in
    the callback of a weak reference, and cuts short what puts a terminal right. Here it is raised
    at once only if `raising`, and again by every `check`. To be used in the main thread.
    """

    def __init__(self, *, raising: bool) -> None:
        self._raising = raising
        self._reading, self._writing = os.pipe()
        # Python writes into it when a signal comes, and must not wait for room there.
        os.set_blocking(self._writing, False)
        self._handler_before: Callable[[int, FrameType | None], Any] | int | None = None
        self._wakeup_before = -1

    def __enter__(self) -> Self:
        self._wakeup_before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._handler_before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._handler_before)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._reading)
        os.close(self._writing)

    def fileno(self) -> int:
        """Readable once there was a SIGINT."""
        return self._reading

    def check(self) -> None:
        """Do nothing unless there was a SIGINT.

        Raises:
            KeyboardInterrupt: there was one.
        """
        if select.select([self], [], [], 0)[0]:
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._raising:
            raise KeyboardInterrupt
