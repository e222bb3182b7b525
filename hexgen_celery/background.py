"""Keeping what a process knows fresh while it is in use, without anybody waiting for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class BackgroundRefresh:
    """Runs `refresh` in a thread when `wanted` is called, at most once in `seconds`.

    While nobody calls, nothing runs. `refresh` must deal with its own errors.
    """

    def __init__(self, name: str, refresh: Callable[[], object], seconds: float) -> None:
        self._name = name
        self._refresh = refresh
        self._seconds = seconds
        self._began_at = float("-inf")
        self._running = threading.Lock()

    def wanted(self) -> None:
        """Somebody uses what is refreshed; returns at once."""
        now = time.monotonic()
        if now - self._began_at > self._seconds and self._running.acquire(blocking=False):
            self._began_at = now
            threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        try:
            self._refresh()
        finally:
            self._running.release()
