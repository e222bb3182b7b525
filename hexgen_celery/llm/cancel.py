"""A flag that any thread may raise to stop a running request at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

Callback = Callable[[], object]


class CancelToken:
    """Set once, from any thread. Subscribers are called in the thread that sets it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callback] = {}
        self._next_id = 0
        self._set = False
        self.reason = ""

    @property
    def is_set(self) -> bool:
        """Whether the work must stop."""
        return self._set

    def set(self, reason: str = "cancelled") -> None:
        """Ask the work to stop; the first reason stays."""
        with self._lock:
            if self._set:
                return
            self._set = True
            self.reason = reason
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call `callback` when the token is set (now, if it is); returns the unsubscriber."""
        with self._lock:
            if not self._set:
                key = self._next_id
                self._next_id += 1
                self._callbacks[key] = callback
                return lambda: self._unsubscribe(key)
        callback()
        return lambda: None

    def _unsubscribe(self, key: int) -> None:
        with self._lock:
            self._callbacks.pop(key, None)
