"""An LLM worker's announcement of its instance, and of whether the server behind it answers."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Protocol

import redis
import structlog

from hexgen_celery.errors import HexgenError
from hexgen_celery.instances import InstanceDirectory, InstanceRecord

log = structlog.get_logger(__name__)


class Server(Protocol):
    """The LLM server behind the instance."""

    def check(self, model: str) -> None:
        """Raise `HexgenError` when the server is away or does not serve `model`."""
        ...


class Announcer:
    """Announces the instance every `interval_seconds`, ready as long as its server answers."""

    def __init__(
        self,
        directory: InstanceDirectory,
        record: InstanceRecord,
        server: Server,
        interval_seconds: float,
    ) -> None:
        self._directory = directory
        self._record = record
        self._server = server
        self._interval = interval_seconds
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)

    @property
    def ready(self) -> bool:
        """Whether the server answered when it was last asked, and the worker is not stopping."""
        return self._record.ready and not self._stop.is_set()

    def check_soon(self) -> None:
        """A request could not reach the server: ask it now instead of at the next beat."""
        self._wake.set()

    def start(self) -> None:
        """Announce now and from now on."""
        self._announce()
        self._thread.start()

    def stop(self) -> None:
        """Withdraw the instance; returns when the thread has ended.

        Only then nothing can announce it again, so that is when it is withdrawn for good.
        """
        self._stop.set()
        self._wake.set()
        self._thread.join()
        self.withdraw()

    def withdraw(self) -> None:
        """Send no more requests here. May be called more than once."""
        self._stop.set()
        self._wake.set()
        try:
            self._directory.withdraw(self._record.name)
        except redis.RedisError as error:
            log.warning("instance not withdrawn", error=str(error))

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._interval)
            self._wake.clear()
            self._announce()

    def _announce(self) -> None:
        if self._stop.is_set():
            return
        trouble = self._trouble()
        ready = not trouble
        if ready != self._record.ready:
            log.warning("server is back" if ready else "server cannot be used", error=trouble)
        self._record = replace(self._record, ready=ready)
        try:
            if not self._stop.is_set():
                self._directory.announce(self._record)
        except redis.RedisError as error:
            log.warning("instance not announced", error=str(error))

    def _trouble(self) -> str:
        """What is wrong with the server; nothing when it answers and serves the model."""
        try:
            self._server.check(self._record.model)
        except HexgenError as error:
            return str(error)
        return ""
