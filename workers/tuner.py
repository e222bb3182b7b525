"""Tuner: a low-priority worker that follows the load. `python -m workers.tuner --name N`.

Celery beat, in a thread of this process, sends `hexgen.tune` every `tuner.interval_seconds`; this
worker runs it. Its simulations take whatever processor time nobody else wants.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

import redis
import structlog
from celery import Celery
from celery.beat import EmbeddedService, Scheduler

from hexgen_celery.app import create_app
from hexgen_celery.keys import Keys
from hexgen_celery.live_tuning import LiveTuner
from hexgen_celery.names import TUNE, TUNE_QUEUE
from hexgen_celery.redis_client import connect
from hexgen_celery.settings import Settings
from workers.celery_process import node_name, run_process, run_worker
from workers.presence import Presence

log = structlog.get_logger(__name__)

LOWEST_PRIORITY = 19


class BeatThread:
    """Celery beat beside the tasks, with its schedule in memory."""

    def __init__(self, app: Celery) -> None:
        self._service: Any = EmbeddedService(app, thread=True, scheduler_cls=Scheduler)

    def start(self) -> None:
        """Begin to send."""
        self._service.start()

    def stop(self) -> None:
        """End."""
        self._service.stop()


def register_tune(app: Celery, tuner: LiveTuner, interval_seconds: float) -> None:
    """Make `app` run `tuner`, and beat ask for it; a message not begun in time is dropped."""

    def run() -> str:
        try:
            decided = tuner.tick()
        except redis.RedisError as error:
            log.warning("Redis cannot be reached", error=str(error))
            return "later"
        return "; ".join(f"{one.scope} {one.chosen}" for one in decided) or "nothing to do"

    app.task(run, name=TUNE, shared=False, ignore_result=True)
    options = {"queue": TUNE_QUEUE, "expires": interval_seconds}
    app.conf.beat_schedule = {
        "tune": {"task": TUNE, "schedule": interval_seconds, "options": options}
    }


def serve(settings: Settings, name: str) -> int:
    """Tune until told to stop."""
    os.nice(LOWEST_PRIORITY)
    client, keys = connect(settings), Keys(settings.broker.prefix)
    app = create_app(settings, "control")
    register_tune(app, LiveTuner(client, keys, settings), settings.tuner.interval_seconds)
    presence = Presence(settings, client, keys, "tuner", node_name(name))
    try:
        return run_worker(
            app, name, queues=(TUNE_QUEUE,), concurrency=1, services=(presence, BeatThread(app))
        )
    finally:
        app.close()
        client.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tuner that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m workers.tuner", description=__doc__)
    parser.add_argument("--name", default="tuner", help="unique on this host")
    name = parser.parse_args(arguments).name
    return run_process(name, lambda settings: serve(settings, name))


if __name__ == "__main__":
    sys.exit(main())
