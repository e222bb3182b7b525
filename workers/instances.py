"""An LLM worker's announcement of its instance and of the state it is in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

import redis
import structlog

from hexgen_celery.errors import HexgenError
from hexgen_celery.instances import InstanceDirectory, InstanceRecord, InstanceState
from hexgen_celery.llm import CancelToken
from hexgen_celery.llm.activity import Activity
from workers.instance_health import InstanceHealth
from workers.server_probe import InstanceRefused

log = structlog.get_logger(__name__)

# So often a server in use is asked whether it is still what its pool says.
VERIFY_SECONDS = 20.0


def _nothing() -> None:
    """Stand in for a callback that nobody gave."""


def _unknown() -> int | None:
    """Stand in for a length that nobody tells."""
    return None


class Server(Protocol):
    """The LLM server behind the instance."""

    def check(self) -> None:
        """Raise `HexgenError` when the server is away or does not serve its model."""
        ...

    def probe(self, cancel: CancelToken) -> None:
        """Complete a small request; raise `HexgenError` when that cannot be done."""
        ...


class Announcer:
    """Announces the instance every `interval_seconds`, and at once when its state changes.

    Probes run in a thread of their own, so that a slow one does not silence the heartbeat.
    `offered_len` tells the context that the server says it has (tokens).
    `on_silent` is called when a server in use is found down and none of its requests was heard of
    lately either: it may keep their connections open for ever. `activity` is what was heard of the
    server: one in use that is silent for `patience_seconds` while requests run is suspect, and
    must complete a probe in as long.
    """

    def __init__(
        self,
        directory: InstanceDirectory,
        record: InstanceRecord,
        server: Server,
        interval_seconds: float,
        health: InstanceHealth | None = None,
        verify_seconds: float = VERIFY_SECONDS,
        on_silent: Callable[[], object] = _nothing,
        offered_len: Callable[[], int | None] = _unknown,
        activity: Activity | None = None,
        patience_seconds: float = float("inf"),
    ) -> None:
        self._directory = directory
        self._record = record
        self._server = server
        self._interval = interval_seconds
        self._health = health or InstanceHealth()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._probes = ThreadPoolExecutor(1, thread_name_prefix="probe")
        self._probe: Future[None] | None = None
        self._cancel = CancelToken()
        self._verifying: Future[None] | None = None
        self._verify_seconds = verify_seconds
        self._verify_at = time.monotonic() + verify_seconds
        self._drain_asked = False
        self._on_silent = on_silent
        self._offered_len = offered_len
        self._activity = activity or Activity()
        self._patience = patience_seconds
        self._probe_until = float("inf")
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)

    @property
    def ready(self) -> bool:
        """Whether requests may be taken: the server works, and the worker is not stopping."""
        return self._health.state is InstanceState.READY and not self._stop.is_set()

    def progressed(self) -> None:
        """A request got a token or its end."""
        with self._lock:
            self._health.progressed(time.monotonic())

    def failed(self, reason: str) -> None:
        """A request could not be served for the server's sake."""
        with self._lock:
            before = self._health.state
            self._health.failed(reason, time.monotonic())
            urgent = self._health.state is not before or self._health.wants_check(time.monotonic())
        if urgent:
            self._wake.set()

    def start(self) -> None:
        """Announce from now on."""
        self._announce()
        self._wake.set()
        self._thread.start()

    def stop(self) -> None:
        """Withdraw the instance; returns when the thread has ended.

        Only then nothing can announce it again, so that is when it is withdrawn for good.
        """
        self._end()
        self._thread.join()
        self._probes.shutdown(wait=True)
        self.withdraw()

    def withdraw(self) -> None:
        """Send no more requests here. May be called more than once."""
        self._end()
        try:
            self._directory.withdraw(self._record.name)
        except redis.RedisError as error:
            log.warning("instance not withdrawn", error=str(error))

    def _end(self) -> None:
        self._stop.set()
        self._cancel.set("the worker stops")
        self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._interval)
            self._wake.clear()
            try:
                self._look()
                self._announce()
            except Exception:
                # A thread that ended would leave the instance down for ever.
                log.exception("instance not announced")

    def _look(self) -> None:
        """Apply what is known to the state: wishes to drain, a finished probe, a check."""
        self._drain_or_resume()
        self._listen()
        if self._probe is not None and self._probe.done():
            self._judge(self._probe)
            self._probe = None
        self._break_off_probe()
        with self._lock:
            wants_probe = self._health.wants_probe
            wants_check = self._health.wants_check(time.monotonic())
            in_use = self._health.state is InstanceState.READY
        if wants_probe and self._probe is None:
            self._begin_probe()
        elif wants_check:
            self._check()
        elif in_use:
            self._verify()

    def _drain_or_resume(self) -> None:
        with self._lock:
            draining = self._health.state is InstanceState.DRAINING
            if self._drain_asked and not draining:
                self._health.drain()
            elif draining and not self._drain_asked:
                self._health.resume()

    def _listen(self) -> None:
        """Suspect a server in use that says nothing to the requests it runs, until it does."""
        silent = self._activity.silent_seconds
        with self._lock:
            self._health.heard(self._activity.heard_at)
            if silent > self._patience:
                self._health.silent(f"requests run, and none has had a token for {silent:.0f} s")

    def _begin_probe(self) -> None:
        self._cancel = CancelToken()
        # Only now: whoever ends it after this look finds this probe's token.
        if self._stop.is_set():
            return
        with self._lock:
            patience = self._patience if self._health.stalled else float("inf")
        self._probe_until = time.monotonic() + patience
        self._probe = self._probes.submit(self._server.probe, self._cancel)
        self._probe.add_done_callback(self._probe_ended)

    def _break_off_probe(self) -> None:
        """End a probe that took too long, or that a token made needless: left alone it would be
        the verdict of another suspicion."""
        if self._probe is None:
            return
        if self.ready:
            self._cancel.set("another request got a token")
        elif time.monotonic() > self._probe_until:
            self._cancel.set(f"no token within {self._patience:.0f} s")

    def _probe_ended(self, probe: Future[None]) -> None:
        """A good probe counts at once; a failed one is repeated at the next beat."""
        if probe.cancelled() or probe.exception() is None:
            self._wake.set()

    def _judge(self, probe: Future[None]) -> None:
        error = probe.exception()
        if error is not None and not isinstance(error, HexgenError):
            log.error("a probe failed unexpectedly", error=repr(error))
        now = time.monotonic()
        with self._lock:
            stalled = self._health.stalled
            if isinstance(error, InstanceRefused):
                self._health.refuse(str(error))
            else:
                self._health.probed("" if error is None else str(error), now)
            down = self._health.state is InstanceState.DOWN
            silent = down and (stalled or not self._health.trusted(now))
        if silent:
            self._on_silent()

    def _verify(self) -> None:
        """Look now and then whether a server in use is still what its pool says: it may have been
        restarted with another model. In the probes' thread, for a busy one may answer late."""
        if self._verifying is not None and self._verifying.done():
            error = self._verifying.exception()
            self._verifying = None
            if isinstance(error, InstanceRefused):
                self._refuse(error)
        elif self._verifying is None and time.monotonic() >= self._verify_at:
            self._verify_at = time.monotonic() + self._verify_seconds
            self._verifying = self._probes.submit(self._server.check)

    def _refuse(self, error: InstanceRefused) -> None:
        with self._lock:
            self._health.refuse(str(error))

    def _check(self) -> None:
        trouble = ""
        try:
            self._server.check()
        except InstanceRefused as error:
            self._refuse(error)
            return
        except HexgenError as error:
            trouble = str(error)
        except Exception as error:
            log.exception("a check failed unexpectedly")
            trouble = repr(error)
        with self._lock:
            self._health.checked(trouble, time.monotonic())
            suspect = self._health.wants_probe
        if suspect:
            self._wake.set()

    def _announce(self) -> None:
        if self._stop.is_set():
            return
        self._take_over_state()
        try:
            asked = self._directory.announce(self._record)
        except redis.RedisError as error:
            log.warning("instance not announced", error=str(error))
            return
        if asked != self._drain_asked:
            self._drain_asked = asked
            self._wake.set()

    def _take_over_state(self) -> None:
        with self._lock:
            state, reason = self._health.state, self._health.reason
        if state != self._record.state:
            log.info("instance changes state", before=self._record.state, state=state, why=reason)
            if state is InstanceState.READY:
                self._record = replace(self._record, epoch=time.time())
        elif reason != self._record.reason:
            log.warning("instance is still not ready", state=state, why=reason)
        self._record = replace(
            self._record, state=state, reason=reason, offered_len=self._offered_len()
        )
