"""Keeping what a process knows fresh while it is in use, without anybody waiting for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from hexgen_celery.closing import Closing

log = structlog.get_logger(__name__)

CLOSE_SECONDS = 10.0


class BackgroundRefresh(Closing):
    """Runs `refresh` in a thread when `wanted` is called, at most once in `seconds`.

    While nobody calls, nothing runs. What `refresh` raises is logged, and it is run again. Close it
    before whatever `refresh` uses: nothing runs afterwards.
    """

    def __init__(self, name: str, refresh: Callable[[], object], seconds: float) -> None:
        self._name = name
        self._refresh = refresh
        self._seconds = seconds
        self._began_at = float("-inf")
        self._running = threading.Lock()
        self._closed = False

    def wanted(self) -> None:
        """Somebody uses what is refreshed; returns at once."""
        now = time.monotonic()
        if now - self._began_at > self._seconds and self._running.acquire(blocking=False):
            self._began_at = now
            threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def close(self) -> None:
        """Wait for what runs, up to `CLOSE_SECONDS`, and let nothing begin any more."""
        if self._closed:
            return
        self._closed = True
        # Never released: it stands for a run that does not end.
        if not self._running.acquire(timeout=CLOSE_SECONDS):
            log.warning("a refresh does not end", refresh=self._name)

    def _run(self) -> None:
        try:
            self._refresh()
        except Exception as error:
            log.warning("not refreshed", refresh=self._name, error=repr(error))
        finally:
            self._running.release()
