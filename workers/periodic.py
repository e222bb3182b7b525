"""A thread that does one thing again and again beside the tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable

import redis
import structlog

log = structlog.get_logger(__name__)


class Periodic:
    """Calls `action` every `seconds`, whatever the last call raised.

    Nobody would notice a thread that ended: leases would lapse and timers stand still. So trouble
    with Redis is a warning, any other error is logged with its traceback, and the calls go on.
    """

    def __init__(self, name: str, action: Callable[[], object], seconds: float) -> None:
        self._name = name
        self._action = action
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; the first call comes after `seconds`."""
        self._thread.start()

    def stop(self) -> None:
        """End; returns when a call under way has ended."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self._action()
            except redis.RedisError as error:
                log.warning("Redis cannot be reached", thread=self._name, error=str(error))
            except Exception:
                log.exception("a periodic call failed", thread=self._name)
