"""What runs in this process, and how to stop it: published cancels, lost leases, shutdown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import redis
import structlog

from hexgen_celery.llm import CancelToken
from hexgen_celery.references import RequestRef

log = structlog.get_logger(__name__)

SHUTDOWN = "worker shutdown"
SILENT_SERVER = "its server answers nothing any more"
LISTEN_SECONDS = 1.0
RECONNECT_SECONDS = 0.5


@dataclass(slots=True, eq=False)
class Running:
    """One delivery of a request being worked on. `claimed` once it is ours to renew."""

    ref: RequestRef
    token: CancelToken = field(default_factory=CancelToken)
    claimed: bool = False


class InFlight:
    """The requests this process works on. All methods are safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[Running] = set()

    @property
    def size(self) -> int:
        """How many deliveries are being worked on."""
        return len(self._running)

    @contextmanager
    def track(self, ref: RequestRef) -> Iterator[Running]:
        """Make `ref` cancellable while the block runs, from before its claim to after its end."""
        running = Running(ref)
        with self._lock:
            self._running.add(running)
        try:
            yield running
        finally:
            with self._lock:
                self._running.discard(running)

    def claimed(self) -> list[RequestRef]:
        """The requests whose lease is ours to renew."""
        with self._lock:
            return [running.ref for running in self._running if running.claimed]

    def cancel(self, name: str, reason: str = "cancelled") -> int:
        """Stop what `name` (`workflow` or `workflow/node`) covers; returns how many that were."""
        workflow, _, node = name.partition("/")
        return self._cancel(
            reason,
            lambda ref: ref.workflow_id == workflow and (not node or ref.node_id == node),
        )

    def cancel_refs(self, refs: Iterable[RequestRef], reason: str = "cancelled") -> int:
        """Stop exactly these attempts."""
        wanted = set(refs)
        return self._cancel(reason, lambda ref: ref in wanted)

    def cancel_all(self, reason: str) -> int:
        """Stop everything."""
        return self._cancel(reason, lambda _ref: True)

    def _cancel(self, reason: str, covers: Callable[[RequestRef], bool]) -> int:
        with self._lock:
            chosen = [running for running in self._running if covers(running.ref)]
        for running in chosen:
            running.token.set(reason)
        return len(chosen)


class CancelListener:
    """A thread that hears the deployment's cancels and stops what they cover in this process.

    A message lost while the connection is down is made up for by the lease keeper: renewing a
    cancelled request's lease says that it must stop.
    """

    def __init__(self, client: redis.Redis, channel: str, in_flight: InFlight) -> None:
        self._client = client
        self._channel = channel
        self._in_flight = in_flight
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cancels", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; returns when the thread has ended."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._listen()
            except redis.RedisError as error:
                log.warning("cancels cannot be heard", error=str(error))
                self._stop.wait(RECONNECT_SECONDS)
            except Exception:
                # Such as a message that is no text: it must not end the hearing of all others.
                log.exception("a cancel was not understood")

    def _listen(self) -> None:
        subscriber = self._client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        with subscriber as subscription:
            subscription.subscribe(self._channel)
            while not self._stop.is_set():
                message = subscription.get_message(timeout=LISTEN_SECONDS)
                if message is not None:
                    self._cancel(message["data"])

    def _cancel(self, data: str | bytes) -> None:
        name = data.decode() if isinstance(data, bytes) else data
        stopped = self._in_flight.cancel(name)
        if stopped:
            log.info("requests cancelled", name=name, requests=stopped)
