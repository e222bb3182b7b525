"""A Celery worker that runs stage requests: LLM and sql workers alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from hexgen_celery.deployment import Deployment
from workers.cancellation import SILENT_SERVER, CancelListener, InFlight
from workers.celery_process import Service, ShutdownGrace, run_worker
from workers.leases import LeaseKeeper
from workers.observed import ObservedExecutor
from workers.presence import Presence
from workers.requests import Place, RequestExecutor, RequestRunner
from workers.revocation import leave_revoke_to_control_workers
from workers.stage_tasks import register_stages

log = structlog.get_logger(__name__)


def _nothing() -> None:
    """Nobody needs to know that the worker is stopping."""


class StageWorker:
    """Runs the requests of some queues with `executor`; `kind` of worker as its process shows it.

    Leases are renewed by one thread and cancels heard by another, whatever the number of requests.
    `on_stopping` is called when the worker is asked to stop, before it has.
    """

    def __init__(
        self,
        deployment: Deployment,
        kind: str,
        executor: RequestExecutor,
        place: Place,
        *,
        on_stopping: Callable[[], None] = _nothing,
    ) -> None:
        self._deployment = deployment
        self._in_flight = InFlight()
        self._on_stopping = on_stopping
        self._presence = Presence(
            deployment.settings, deployment.redis, deployment.keys, kind, deployment.worker
        )
        self._runner = RequestRunner(
            deployment.coordinator,
            ObservedExecutor(executor, self._presence.observer, place),
            self._in_flight,
            place,
            patience_seconds=deployment.settings.coordinator.lease_seconds,
        )

    def run(
        self,
        name: str,
        *,
        tasks: Sequence[str],
        queues: Sequence[str],
        concurrency: int,
        services: Sequence[Service] = (),
    ) -> int:
        """Consume `queues` until told to stop; returns the exit status."""
        register_stages(self._deployment.app, tasks, self._runner)
        leave_revoke_to_control_workers()
        return run_worker(
            self._deployment.app,
            name,
            queues=queues,
            concurrency=concurrency,
            services=(*self._own_services(), *services),
        )

    def break_off(self) -> None:
        """Stop what runs, since its server answers nothing any more: it fails, and is tried again
        elsewhere."""
        broken_off = self._in_flight.cancel_all(SILENT_SERVER)
        if broken_off:
            log.warning("requests broken off", requests=broken_off, why=SILENT_SERVER)

    def _own_services(self) -> tuple[Service, ...]:
        deployment, settings = self._deployment, self._deployment.settings
        return (
            self._presence,
            CancelListener(deployment.redis, deployment.keys.cancels, self._in_flight),
            LeaseKeeper(
                deployment.coordinator,
                deployment.worker,
                self._in_flight,
                settings.coordinator.lease_seconds,
            ),
            ShutdownGrace(
                self._in_flight, settings.workers.shutdown_grace_seconds, self._on_stopping
            ),
        )
