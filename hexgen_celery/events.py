"""Celery task events that all arrive, from many threads, and the end of tasks finished elsewhere.

Celery's own dispatcher lets pool threads and the event loop share one connection and one buffer;
under the thread pool 18-70 % of the events are lost. Here every thread only appends to one queue,
and one thread per process publishes it in batches over a connection of its own.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, cast

import structlog
from celery import Celery
from celery.app.events import Events
from celery.events.dispatcher import EventDispatcher
from celery.events.event import Event, get_exchange, group_from
from celery.utils.time import utcoffset
from kombu import Producer

log = structlog.get_logger(__name__)

EventJson = dict[str, Any]

BATCH_SECONDS = 0.05
BATCH_EVENTS = 100
MAX_WAITING = 50_000
RETRY_SECONDS = 0.5
CLOSE_SECONDS = 3.0


class EventPipe:
    """The events of this process, in order, on their way to the broker.

    While the broker is away up to `MAX_WAITING` events wait; beyond that the oldest are given up
    and counted in `dropped`, as are batches that cannot be published at all.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._waiting: deque[EventJson] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self.dropped = 0

    def put(self, event: EventJson) -> None:
        """Hand over one event; returns at once. Safe from any thread."""
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(event)
            self._ensure_thread()
            if len(self._waiting) == 1:
                self._changed.notify()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Publish what waits, for at most `seconds`, and stop. A later `put` starts again."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._closing = True
            self._changed.notify()
        if thread is not None:
            thread.join(seconds)

    def _ensure_thread(self) -> None:
        if self._thread is None:
            self._closing = False
            self._thread = threading.Thread(target=self._run, name="events", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        connection = self._app.connection_for_write()
        exchange = get_exchange(connection, name=self._app.conf.event_exchange)
        producer = Producer(connection, exchange=exchange, serializer="json", auto_declare=False)
        try:
            while self._wait():
                self._publish_waiting(producer)
        finally:
            connection.release()

    def _wait(self) -> bool:
        """Until there is something to publish; False when all is published and we are closing."""
        with self._changed:
            while not self._waiting:
                if self._closing:
                    return False
                self._changed.wait()
            if not self._closing and len(self._waiting) < BATCH_EVENTS:
                self._changed.wait(BATCH_SECONDS)
        return True

    def _publish_waiting(self, producer: Producer) -> None:
        with self._changed:
            batch = [self._waiting[i] for i in range(min(len(self._waiting), BATCH_EVENTS))]
        try:
            self._publish(producer, batch)
        except producer.connection.connection_errors + producer.connection.channel_errors as error:
            log.warning("events wait for the broker", waiting=len(batch), error=str(error))
            self._pause()
            return
        except Exception:
            # Such as an event that cannot be encoded: kept, it would hold up all others for ever.
            log.exception("events given up", events=len(batch))
            self.dropped += len(batch)
        with self._changed:
            for event in batch:
                if self._waiting and self._waiting[0] is event:
                    self._waiting.popleft()

    def _publish(self, producer: Producer, batch: list[EventJson]) -> None:
        for group, events in groupby(batch, key=lambda event: group_from(event["type"])):
            for body, routing_key in _messages(group, list(events)):
                producer.publish(
                    body,
                    routing_key=routing_key,
                    declare=[producer.exchange],
                    retry=False,
                    delivery_mode=1,
                )

    def _pause(self) -> None:
        with self._changed:
            if self._closing:
                self._waiting.clear()
                return
        time.sleep(RETRY_SECONDS)


def _messages(group: str, events: list[EventJson]) -> Iterable[tuple[Any, str]]:
    """Task events travel as one list; others alone, because receivers filter by routing key."""
    if group == "task":
        return [(events, "task.multi")]
    return [(event, event["type"].replace("-", ".")) for event in events]


class PipedDispatcher(EventDispatcher):  # type: ignore[misc]
    """Celery's dispatcher with the publishing taken out: every event goes to the process's pipe."""

    def enable(self) -> None:
        self._closed = False
        self.enabled = True
        for callback in self.on_enabled:
            callback()

    def send(self, type: str, blind: bool = False, **fields: Any) -> None:
        """Queue one event; options about transport (`retry`, `utcoffset`, …) have no meaning."""
        for option in ("utcoffset", "retry", "retry_policy", "Event"):
            fields.pop(option, None)
        if not self.enabled or (self.groups and group_from(type) not in self.groups):
            return
        event_pipe(self.app).put(self._prepare_event(type, fields, blind=blind))

    def flush(self, errors: bool = True, groups: bool = True) -> None:
        """Nothing waits in a dispatcher: the pipe publishes what it holds by itself."""

    def extend_buffer(self, other: EventDispatcher) -> None:
        """Nothing waits in a dispatcher, so there is nothing to take over."""


class PipedEvents(Events):  # type: ignore[misc]
    """`app.events` of our applications."""

    dispatcher_cls = PipedDispatcher

    def __init__(self, app: Celery | None = None) -> None:
        super().__init__(app=app)
        self.pipe = EventPipe(app)


def event_pipe(app: Celery) -> EventPipe:
    """The pipe of this process's application."""
    return cast(PipedEvents, app.events).pipe


def send_event(app: Celery, hostname: str, type: str, **fields: Any) -> None:
    """Emit an event about a task that ends outside Celery's own bookkeeping.

    `hostname` is the worker's name; receivers take it for the worker that finished the task.
    """
    body: Mapping[str, Any] = Event(
        type, hostname=hostname, utcoffset=utcoffset(), pid=0, clock=app.clock.forward(), **fields
    )
    event_pipe(app).put(dict(body))
