"""Celery's thread pool with a cold shutdown.

Threads cannot be killed, so that stock Celery's cold shutdown fails and waits for them. Here it
hands back every message at once and then ends the process.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import structlog
from celery.concurrency.thread import TaskPool
from kombu.asynchronous import get_event_loop

from hexgen_celery.transport import process

log = structlog.get_logger(__name__)

EXIT_FAILURE = 1
END_SECONDS = 1.0


class ThreadPool(TaskPool):  # type: ignore[misc]
    """A thread pool for `celery worker -P custom` and our own workers."""

    _cold = False

    def terminate_job(self, pid: int, signal: Any = None) -> None:  # noqa: ARG002
        """Celery asks this for every running task at a cold shutdown."""
        self._cold = True

    def on_stop(self) -> None:
        """Wait for running tasks; at a cold shutdown hand their messages back instead."""
        if self._cold:
            self.abandon()
        else:
            super().on_stop()

    def on_terminate(self) -> None:
        """The worker ends without waiting."""
        self.abandon()

    def abandon(self) -> None:
        """Hand everything back and end the process, unless it ends by itself in a moment."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        run_pending_callbacks()
        process.hand_back_all()
        log.info("worker ends without its running tasks")
        timer = threading.Timer(END_SECONDS, os._exit, (EXIT_FAILURE,))
        timer.daemon = True
        timer.start()


def run_pending_callbacks() -> None:
    """Acknowledgements of finished tasks wait for the event loop, which may never run again."""
    loop = get_event_loop()
    if loop is not None:
        for callback in loop._pop_ready():
            callback()
