"""What all three kinds of Celery worker share: start, services beside the tasks, clean end."""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog
from celery import Celery, signals

from hexgen_celery.cluster import resolve_broker
from hexgen_celery.errors import HexgenError
from hexgen_celery.events import event_pipe
from hexgen_celery.logs import configure_logs
from hexgen_celery.settings import Settings, load_settings
from hexgen_celery.transport import process
from hexgen_celery.transport.thread_pool import ThreadPool
from workers.cancellation import SHUTDOWN, InFlight
from workers.tolerant_consumer import TolerantConsumer

log = structlog.get_logger(__name__)

USER_ERROR = 2
PER_TASK_LOGGERS = ("celery.worker.strategy", "celery.app.trace")


class Service(Protocol):
    """Something that runs beside the tasks."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """End; returns when it has."""
        ...


def node_name(name: str) -> str:
    """The Celery node name of worker `name` on this host."""
    return f"{name}@{socket.gethostname()}"


def run_process(name: str, serve: Callable[[Settings], int]) -> int:
    """Read the configuration and serve; an error a user can mend is one line and status 2."""
    try:
        settings = load_settings()
        configure_logs(settings.log, process=name)
        return serve(resolve_broker(settings))
    except HexgenError as error:
        sys.stderr.write(f"error: {error}\n")
        return USER_ERROR


def run_worker(
    app: Celery,
    name: str,
    *,
    queues: Sequence[str],
    concurrency: int,
    services: Sequence[Service] = (),
) -> int:
    """Consume `queues` with `concurrency` threads until a signal says stop; returns the status."""
    _leave_logging_alone()
    process.acknowledge_in_background()
    worker = app.Worker(
        hostname=node_name(name),
        pool=ThreadPool,
        consumer_cls=TolerantConsumer,
        concurrency=concurrency,
        queues=list(queues),
        without_gossip=True,
        without_mingle=True,
        task_events=True,
        quiet=True,
    )
    for service in services:
        service.start()
    log.info("worker starts", queues=list(queues), concurrency=concurrency)
    try:
        worker.start()
    finally:
        for service in reversed(services):
            service.stop()
        event_pipe(app).close()
        log.info("worker ended")
    return int(worker.exitcode or 0)


class ShutdownGrace:
    """Hands back what still runs some time after the worker was asked to stop.

    `on_stopping` is called at once, from a thread, so that no new work is sent here. A second
    signal ends the grace.
    """

    def __init__(
        self, in_flight: InFlight, grace_seconds: float, on_stopping: Callable[[], None]
    ) -> None:
        self._in_flight = in_flight
        self._grace_seconds = grace_seconds
        self._on_stopping = on_stopping
        self._ended = threading.Event()
        self._asked = 0

    def start(self) -> None:
        """Watch for the end."""
        signals.worker_shutting_down.connect(self._begin)

    def stop(self) -> None:
        """The worker has ended; nothing is left to hand back."""
        signals.worker_shutting_down.disconnect(self._begin)
        self._ended.set()

    def _begin(self, **_signal: object) -> None:
        """Called inside the signal handler: leave everything that takes a lock to a thread."""
        self._asked += 1
        grace = self._grace_seconds if self._asked == 1 else 0.0
        threading.Thread(
            target=self._drain, args=(grace,), name="shutdown-grace", daemon=True
        ).start()

    def _drain(self, grace_seconds: float) -> None:
        self._on_stopping()
        if not self._ended.wait(grace_seconds):
            handed_back = self._in_flight.cancel_all(SHUTDOWN)
            log.info("requests handed back", requests=handed_back)


def _leave_logging_alone() -> None:
    """Keep Celery from configuring logging, and from two lines per task."""
    signals.setup_logging.connect(_configured_already)
    for name in PER_TASK_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)


def _configured_already(**_signal: object) -> None:
    """A receiver of `setup_logging` is what tells Celery that logging is set up."""
