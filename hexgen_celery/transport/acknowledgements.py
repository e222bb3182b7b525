"""Acknowledgements delivered by a thread, so that the event loop never waits for them.

One delivery takes everything that has gathered during the last one: alone an acknowledgement is as
quick as before, in a burst a single round trip carries many.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)


class AckThread:
    """Calls `deliver` soon after every `wake`, however many wakes came in between."""

    def __init__(self, deliver: Callable[[], object]) -> None:
        self._deliver = deliver
        self._wanted = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="queue-acks", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is something to deliver."""
        self._wanted.set()

    def stop(self) -> None:
        """Deliver what is waiting and end; returns when the thread has ended."""
        self._wanted.set()
        self._stopping = True
        self._wanted.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping or self._wanted.is_set():
            self._wanted.wait()
            self._wanted.clear()
            self._attempt()

    def _attempt(self) -> None:
        """The thread must outlive any failure; what was not delivered waits for the next round."""
        try:
            self._deliver()
        except Exception as error:
            log.warning("acknowledgements not delivered", error=f"{type(error).__name__}: {error}")
