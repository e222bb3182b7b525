"""Recorder: what began and ended, from Redis into the store. `python -m workers.recorder --name N`.

One is enough; a second one shares the work and takes over. While the store is away everything waits
in Redis, and is written when it is back.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence

import redis
import structlog
from sqlalchemy import Engine

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.keys import Keys
from hexgen_celery.redis_client import connect
from hexgen_celery.settings import Settings
from hexgen_celery.store.alpha import AlphaHistory
from hexgen_celery.store.engine import open_store, place_of
from hexgen_celery.store.errors import StoreOutdated, StoreUnavailable
from hexgen_celery.store.lost import LostQuestions
from hexgen_celery.store.recording import Batch, Recording
from hexgen_celery.store.retention import Pruner, Retention
from hexgen_celery.store.schema import check_schema
from hexgen_celery.store.stream import Entry, RecordStream
from workers.celery_process import Service, node_name, run_process
from workers.periodic import Periodic
from workers.presence import Presence

log = structlog.get_logger(__name__)

NICENESS = 10
TAKE_WAIT_SECONDS = 1.0
TAKE_OVER_SECONDS = 20.0
ALPHA_SECONDS = 10.0
LOST_SECONDS = 60.0
LINGER_SECONDS = 0.5
"""Rest after a batch that was not full: many small transactions would cost more than they bring."""
FIRST_PAUSE_SECONDS = 0.5
MOST_DOUBLINGS = 20
_KILLED_BY = 128


class Recorder:
    """Takes, writes and acknowledges until told to stop. `settings` say how many at once.
    `on_written` is told how many rows each batch was."""

    def __init__(
        self,
        recording: Recording,
        stream: RecordStream,
        settings: Settings,
        on_written: Callable[[int], object] = int,
    ) -> None:
        self._recording = recording
        self._stream = stream
        self._on_written = on_written
        self._count = settings.store.batch
        self._longest_pause = settings.store.retry_max_seconds
        self._wait = min(TAKE_WAIT_SECONDS, settings.broker.socket_timeout_seconds / 2)
        self._failures = 0
        self._batch = Batch()
        self._taken = 0
        self._stop = threading.Event()
        self._joined = False
        self._take_over_at = 0.0

    def stop(self) -> None:
        """Ask `run` to end after its batch; safe from a signal handler."""
        self._stop.set()

    def run(self) -> None:
        """Record until `stop`; nothing that is away ends it."""
        while not self._stop.is_set():
            try:
                self.step(self._wait)
                self._failures = 0
                if self._taken < self._count:
                    self._stop.wait(LINGER_SECONDS)
            except (StoreUnavailable, StoreOutdated, redis.RedisError) as error:
                self._wait_after(error)

    def step(self, wait_seconds: float = TAKE_WAIT_SECONDS) -> int:
        """Record one batch, the one that could not be written before first; rows written.

        Raises:
            StoreUnavailable, StoreOutdated, redis.RedisError: call it again later.
        """
        if self._batch == Batch():
            self._batch = self._take(wait_seconds)
        batch = self._batch
        if batch == Batch():
            return 0
        written = self._recording.write(batch)
        self._batch = Batch()
        self._on_written(written)
        log.debug("recorded", entries=batch.size, rows=written)
        return written

    def _take(self, wait_seconds: float) -> Batch:
        if not self._joined:
            self._stream.join()
            self._joined = True
        entries = self._stream.held(self._count) or self._abandoned()
        entries = entries or self._stream.take(self._count, wait_seconds)
        self._taken = len(entries)
        return self._recording.read(entries) if entries else Batch()

    def _abandoned(self) -> list[Entry]:
        """What another recorder took and will never finish."""
        if time.monotonic() < self._take_over_at:
            return []
        entries = self._stream.take_over(self._count)
        if not entries:
            self._take_over_at = time.monotonic() + TAKE_OVER_SECONDS
        return entries

    def _wait_after(self, error: Exception) -> None:
        """Something is away, or Redis came back without the group: say so, wait, go on."""
        self._joined = False
        pause = min(self._longest_pause, FIRST_PAUSE_SECONDS * 2**self._failures)
        self._failures = min(self._failures + 1, MOST_DOUBLINGS)
        log.warning("nothing can be recorded now", error=str(error), pause_seconds=pause)
        self._stop.wait(pause)


def chores(
    client: redis.Redis, keys: Keys, engine: Engine, settings: Settings
) -> tuple[Periodic, ...]:
    """What a recorder does now and then: copy the history of policies, end questions that were
    lost, delete what is old."""
    history = AlphaHistory(client, keys, engine)
    lost = LostQuestions(client, keys, engine)
    pruner = Pruner(engine, Retention.of(settings.store))

    def prune() -> None:
        deleted = {table: rows for table, rows in pruner.prune(time.time()).items() if rows}
        if deleted:
            log.info("pruned", **deleted)

    return (
        Periodic("alpha-history", _unless_away(history.copy), ALPHA_SECONDS),
        Periodic("lost-questions", _unless_away(lambda: lost.end(time.time())), LOST_SECONDS),
        Periodic("retention", _unless_away(prune), settings.store.prune_seconds),
    )


def _unless_away(action: Callable[[], object]) -> Callable[[], None]:
    """`action`, whose turn is passed over while the store is away."""

    def act() -> None:
        try:
            action()
        except (StoreUnavailable, StoreOutdated) as error:
            log.warning("the store is away", error=str(error))

    return act


def serve(settings: Settings, name: str) -> int:
    """Record until told to stop.

    Raises:
        InvalidSettings: nothing is to be recorded.
        StoreOutdated: the store must be migrated first.
    """
    if not settings.store.enabled:
        raise InvalidSettings(
            "nothing is recorded in this deployment",
            field="store.enabled",
            hint="set store.enabled = true for all of its processes",
        )
    os.nice(NICENESS)
    client, keys = connect(settings), Keys(settings.broker.prefix)
    engine = open_store(settings, writing=True)
    _check(engine)
    stream = RecordStream(client, keys, node_name(name))
    presence = Presence(settings, client, keys, "recorder", node_name(name))
    recording = Recording(client, keys, engine, stream)
    recorder = Recorder(recording, stream, settings, presence.observer.recorded)
    _stop_on_signal(recorder)
    beside: tuple[Service, ...] = (presence, *chores(client, keys, engine, settings))
    for chore in beside:
        chore.start()
    log.info("recorder starts", store=place_of(engine.url))
    recorder.run()
    for chore in beside:
        chore.stop()
    engine.dispose()
    client.close()
    log.info("recorder ended")
    return 0


def _stop_on_signal(recorder: Recorder) -> None:
    """The first signal lets the batch end; the second ends the process, whatever it waits for, as
    for a database that never answers. What is not acknowledged is recorded again.

    A thread of its own takes them: the recorder's may be in a call that lets no handler run.
    """
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)

    def wait() -> None:
        signal.sigwait(signals)
        recorder.stop()
        number = signal.sigwait(signals)
        log.warning("recorder ends amid its batch, which is recorded again")
        os._exit(_KILLED_BY + number)

    threading.Thread(target=wait, name="signals", daemon=True).start()


def _check(engine: Engine) -> None:
    """A store that must be migrated is an error now; one that is away may come back."""
    try:
        check_schema(engine)
    except StoreUnavailable as error:
        log.warning("the store is away", error=str(error))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the recorder that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m workers.recorder", description=__doc__)
    parser.add_argument("--name", default="recorder", help="unique on this host")
    name = parser.parse_args(arguments).name
    return run_process(name, lambda settings: serve(settings, name))


if __name__ == "__main__":
    sys.exit(main())
