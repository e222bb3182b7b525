"""Control worker: accepts questions and keeps the timers. `python -m workers.control --name N`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hexgen_celery.deployment import connect_deployment
from hexgen_celery.names import ASK_QUEUE, CONTROL_QUEUE, DEFAULT_QUEUE
from hexgen_celery.settings import Settings
from hexgen_celery.transport import process
from workers.celery_process import node_name, run_process, run_worker
from workers.periodic import Periodic
from workers.presence import CONTROL, Presence
from workers.questions import Reception, SendingThread, register_ask
from workers.revocation import RevocationService
from workers.upkeep import Upkeep

QUEUES = (ASK_QUEUE, DEFAULT_QUEUE, CONTROL_QUEUE)


def serve(settings: Settings, name: str) -> int:
    """Run a control worker until it is told to stop."""
    deployment = connect_deployment(settings, "control", node_name(name))
    coordinator = deployment.coordinator
    presence = Presence(settings, deployment.redis, deployment.keys, CONTROL, deployment.worker)
    observer = presence.observer
    sending = SendingThread()
    reception = Reception(
        settings,
        deployment.databases,
        coordinator,
        sending.submit,
        lambda tag, name: process.prove(tag, deployment.keys.workflow(name)),
    )
    register_ask(deployment.app, reception, observer.refused)
    services = (
        presence,
        sending,
        Periodic(
            "timers",
            lambda: observer.ticked(coordinator.tick()),
            settings.coordinator.tick_seconds,
        ),
        RevocationService(deployment.app, coordinator),
        Upkeep(deployment, observer),
    )
    try:
        return run_worker(
            deployment.app,
            name,
            queues=QUEUES,
            concurrency=settings.workers.control_concurrency,
            services=services,
        )
    finally:
        deployment.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the control worker that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m workers.control", description=__doc__)
    parser.add_argument("--name", default="control", help="unique on this host")
    name = parser.parse_args(arguments).name
    return run_process(name, lambda settings: serve(settings, name))


if __name__ == "__main__":
    sys.exit(main())
