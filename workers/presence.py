"""How a worker shows itself: its record among the processes, and its metrics where they are on."""

from __future__ import annotations

import time
from importlib.metadata import version

import redis
import structlog

from hexgen_celery.keys import Keys
from hexgen_celery.metrics import Observer, ProcessMetrics
from hexgen_celery.metrics.cluster_collector import ClusterCollector
from hexgen_celery.metrics.endpoint import Endpoint
from hexgen_celery.metrics.targets import scrape_targets
from hexgen_celery.overview import CountsReader
from hexgen_celery.processes import (
    ANNOUNCE_SECONDS,
    SILENT_SECONDS,
    ProcessDirectory,
    ProcessRecord,
    settings_fingerprint,
)
from hexgen_celery.settings import Settings
from workers.periodic import Periodic

log = structlog.get_logger(__name__)

CONTROL = "control"
SQL = "sql"
LATEST_START_ORDERS = ("latest-start", "least-laxity")
"""Orders whose ranks are latest start times; statements are always ranked by theirs."""


class Presence:
    """One process among the others: a service of its worker.

    `observer` hears what the worker does. Control workers export the cluster's figures. Every
    endpoint tells scrapers where all the others are, because which of the processes of a host gets
    which port is chance, and calls its process healthy while it reaches Redis.
    """

    def __init__(
        self, settings: Settings, client: redis.Redis, keys: Keys, kind: str, worker: str
    ) -> None:
        self._directory = ProcessDirectory(client, keys)
        self._record = ProcessRecord(
            worker, kind, version("hexgen-celery"), settings_fingerprint(settings)
        )
        self._beat = Periodic("presence", self._announce, ANNOUNCE_SECONDS)
        self._announced_at = time.monotonic()
        self.observer = Observer()
        self._endpoint: Endpoint | None = None
        if settings.metrics.enabled:
            laxity_known = kind == SQL or settings.queues.order in LATEST_START_ORDERS
            metrics = ProcessMetrics(kind, worker, laxity_known=laxity_known)
            self.observer = metrics
            self._endpoint = self._build_endpoint(settings, client, metrics, kind)

    def start(self) -> None:
        """Listen where metrics are on, and announce the process from now on."""
        if self._endpoint is not None:
            self._endpoint.start()
        try:
            self._announce()
        except redis.RedisError as error:
            log.warning("process not announced yet", error=str(error))
        self._beat.start()

    def stop(self) -> None:
        """Withdraw the process and give its port back."""
        self._beat.stop()
        if self._endpoint is not None:
            self._endpoint.stop()
        try:
            self._directory.withdraw(self._record.worker)
        except redis.RedisError as error:
            log.warning("process not withdrawn", error=str(error))

    def _announce(self) -> None:
        address = self._endpoint.address if self._endpoint is not None else ""
        self._directory.announce(self._record, address)
        self._announced_at = time.monotonic()

    def _healthy(self) -> bool:
        return time.monotonic() - self._announced_at <= SILENT_SECONDS

    def _build_endpoint(
        self, settings: Settings, client: redis.Redis, metrics: ProcessMetrics, kind: str
    ) -> Endpoint:
        if kind == CONTROL:
            reader = CountsReader(client, settings)
            metrics.registry.register(ClusterCollector(reader.read, settings))
        return Endpoint(
            settings.metrics,
            metrics.registry,
            lambda: scrape_targets(self._directory.alive()),
            self._healthy,
        )
