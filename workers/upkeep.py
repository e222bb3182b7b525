"""What control workers do beside accepting questions: learn, rescore, rescue, forget."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from hexgen_celery.core.estimates import Estimate
from hexgen_celery.deployment import Deployment
from hexgen_celery.instances import InstanceDirectory
from hexgen_celery.learning import Learner
from hexgen_celery.metrics import Observer
from hexgen_celery.redis_client import connect_binary
from hexgen_celery.upkeep.rescoring import Rescorer
from hexgen_celery.upkeep.stranded import Rescuer
from workers.celery_process import Service
from workers.periodic import Periodic

log = structlog.get_logger(__name__)

LEARN_SECONDS = 1.0
RESCORE_SECONDS = 2.0
RESCUE_SECONDS = 0.5
# Instances that register themselves may have ever new names; a day tells a name that is gone from
# a server that is being mended.
FORGET_AFTER_SECONDS = 86_400.0
FORGET_SECONDS = 60.0


def on_prediction(observer: Observer) -> Callable[[str, Estimate, float], None]:
    """What a learner calls with every estimate that came out: tells `observer`."""

    def predicted(about: str, estimate: Estimate, true: float) -> None:
        inside = estimate.p10 <= true <= estimate.p90
        observer.predicted(about, estimate.mean, true, inside=inside)

    return predicted


class Upkeep:
    """The services of one control worker that keep waiting requests where they belong.

    Kombu's lists can be neither looked into nor reordered, so that there only learning and
    forgetting are left.
    """

    def __init__(self, deployment: Deployment, observer: Observer) -> None:
        client, keys = deployment.redis, deployment.keys
        learner = Learner(client, keys, deployment.worker, on_prediction(observer))
        directory = InstanceDirectory(client, keys)
        self._services: list[Service] = [
            Periodic("learner", learner.learn, LEARN_SECONDS),
            Periodic("forgetter", lambda: _forget_silent(directory), FORGET_SECONDS),
        ]
        self._binary = connect_binary(deployment.settings)
        if deployment.settings.broker.transport == "urgency":
            self._services += self._queue_services(deployment)

    def start(self) -> None:
        """Begin."""
        for service in self._services:
            service.start()

    def stop(self) -> None:
        """End; returns when all have."""
        for service in self._services:
            service.stop()
        self._binary.close()

    def _queue_services(self, deployment: Deployment) -> list[Service]:
        client, keys, router = deployment.redis, deployment.keys, deployment.router
        rescuer = Rescuer(client, self._binary, keys, deployment.settings, router)
        rescorer = Rescorer(client, self._binary, keys, router)
        return [
            Periodic("rescuer", rescuer.rescue, RESCUE_SECONDS),
            Periodic("rescorer", rescorer.rescore, RESCORE_SECONDS),
        ]


def _forget_silent(directory: InstanceDirectory) -> None:
    gone = directory.forget_silent(FORGET_AFTER_SECONDS)
    if gone:
        log.info("instances forgotten", instances=gone)
