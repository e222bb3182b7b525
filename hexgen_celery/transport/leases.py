"""What this process holds: leases that outlive connections, renewed, swept and given back by a
thread of their own.

A lost connection ends no work, so it ends no lease: the keeper renews over its own connections, and
acknowledgements that cannot be delivered wait here until they can. Only when the last reference to
a message is gone, so that nobody can acknowledge it any more, is it handed back.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import redis
import structlog

from hexgen_celery.fault_points import reach
from hexgen_celery.transport.acknowledgements import AckThread
from hexgen_celery.transport.messages import Claimed, Urgency
from hexgen_celery.transport.scripts import QueueScripts, SweepRules, Swept

log = structlog.get_logger(__name__)

RENEWALS_PER_LEASE = 5
SWEEPS_PER_LEASE = 15
GAP_SWEEPS = 4
STOP_SECONDS = 1.0
REJECTED = "refused by a worker"
TROUBLE = (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError, OSError)


class Deliverable(Protocol):
    """A message object as Kombu hands it to a consumer."""


@dataclass(slots=True)
class Held:
    """One message held by this process. `prefilled` once its first token was seen; `proof` is the
    key that its work has left in Redis, "" where it leaves none."""

    urgency: Urgency
    queue: str
    message: weakref.ref[Deliverable] | None = None
    prefilled: bool = False
    proof: str = ""


@dataclass(frozen=True, slots=True)
class HeldLoad:
    """What all held messages take of the engine behind this process."""

    running: int = 0
    kv_tokens: int = 0
    prefill_tokens: int = 0


@dataclass(frozen=True, slots=True)
class LeaseRules:
    """Seconds a lease lasts without renewal, how often one may end before the message is given up
    as a dead letter, and how many of those are kept."""

    seconds: float = 15.0
    deliveries: int = 5
    dead_letters: int = 10_000

    @property
    def sweep(self) -> SweepRules:
        """How often leases are swept, and after which silence they are extended instead."""
        interval = self.seconds / SWEEPS_PER_LEASE
        gap = GAP_SWEEPS * interval
        return SweepRules(self.seconds, interval, gap, self.deliveries, self.dead_letters)


def holder_prefix(host: str, pid: int) -> str:
    """How the holder name of any process with that id on `host` begins."""
    return f"{host}:{pid}:"


class LeaseKeeper:
    """All leases of this process at one broker. Thread-safe.

    `holder` names the process: host, process id and a random part, so that a successor with the
    same process id is somebody else. `swept` is what all its sweeps did together.
    """

    def __init__(self, client: redis.Redis, root: str, rules: LeaseRules) -> None:
        self.holder = holder_prefix(socket.gethostname(), os.getpid()) + secrets.token_hex(4)
        self.rules = rules
        self.scripts = QueueScripts(client, root)
        self.swept = Swept()
        self._held: dict[str, Held] = {}
        self._done: dict[str, str] = {}
        self._orphans: deque[str] = deque()
        self._starving: set[str] = set()
        self._lost: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queue-leases", daemon=True)
        self._started = False
        self._acks: AckThread | None = None

    def acknowledge_in_background(self) -> None:
        """From now on `ack` returns at once; a thread delivers, many at a time where many wait."""
        with self._lock:
            if self._acks is None:
                self._acks = AckThread(self._deliver_waiting_acks)

    def start(self) -> None:
        """Begin to renew and sweep; starting again changes nothing."""
        with self._lock:
            if not self._started:
                self._started = True
                self._thread.start()

    def hold(self, claimed: Claimed) -> None:
        """A claim of this process has succeeded."""
        message = claimed.message
        with self._lock:
            self._held[message.token] = Held(message.urgency, message.queue)
        reach("after-claim")

    def attach(self, token: str, message: Deliverable) -> None:
        """`message` is what can acknowledge `token`; once it is collected nobody can."""
        with self._lock:
            held = self._held.get(token)
            if held is not None:
                held.message = weakref.ref(message, lambda _ref: self._orphans.append(token))

    def prove(self, token: str, key: str) -> bool:
        """The message's work has made `key`: an acknowledgement that finds Redis without it, after
        a crash that lost the last writes, hands the message back. False when it is not held here.
        """
        with self._lock:
            held = self._held.get(token)
            if held is not None:
                held.proof = key
        return held is not None

    def ack(self, token: str) -> None:
        """The work is done. When Redis is away this is delivered later, and the lease kept."""
        reach("before-ack")
        with self._lock:
            held = self._held.get(token)
            self._done[token] = held.proof if held else ""
            if self._acks is not None:
                # The engine has the room already, whenever Redis hears of it.
                self._held.pop(token, None)
        if self._acks is None:
            self._deliver_waiting_acks()
        else:
            self._acks.wake()

    def requeue(self, tokens: Iterable[str], *, at_front: bool = True) -> None:
        """Hand messages back; when Redis is away their leases end by themselves."""
        self._give_up(
            tokens, lambda mine: self.scripts.requeue(self.holder, mine, at_front=at_front)
        )

    def reject(self, token: str, cause: str = REJECTED) -> None:
        """Turn a message into a dead letter."""
        self._give_up((token,), lambda mine: self.scripts.reject(self.holder, mine, cause))

    def first_token(self, token: str) -> bool:
        """The message's prefill is done; False when it is not held here.

        Raises:
            redis.RedisError: Redis could not be told; the local count is right all the same.
        """
        with self._lock:
            held = self._held.get(token)
            if held is None or held.prefilled:
                return False
            held.prefilled = True
        return self.scripts.first_token(self.holder, token, self._a_starving_lane())

    def load(self) -> HeldLoad:
        """What is held now."""
        with self._lock:
            held = list(self._held.values())
        return HeldLoad(
            running=len(held),
            kv_tokens=sum(one.urgency.kv_tokens for one in held),
            prefill_tokens=sum(one.urgency.prefill_tokens for one in held if not one.prefilled),
        )

    def starve(self, wake_list: str, *, starving: bool) -> None:
        """Whether the lane that sleeps at `wake_list` wants to know of every bit of room."""
        with self._lock:
            (self._starving.add if starving else self._starving.discard)(wake_list)

    def tokens(self) -> list[str]:
        """Every message held, those included whose acknowledgement is under way."""
        with self._lock:
            return [*self._held, *(token for token in self._done if token not in self._held)]

    def stop(self) -> None:
        """Stop renewing; returns when the thread has ended, or waits for Redis too long."""
        self._stop.set()
        if self._acks is not None:
            self._acks.stop()
        if self._started and self._thread is not threading.current_thread():
            self._thread.join(STOP_SECONDS)

    def hand_back_all(self) -> int:
        """Deliver what acknowledgements wait and hand back the rest; how many were handed back."""
        if not self.tokens():
            return 0
        try:
            self._deliver_acks(self._waiting_acks())
            with self._lock:
                held = list(self._held)
                self._held.clear()
            return self.scripts.requeue(self.holder, held)
        except TROUBLE as error:
            log.warning("leases are left to end by themselves", error=str(error))
            return 0

    def tend(self) -> None:
        """One round of the thread: late acknowledgements, orphans, renewal, sweep.

        Raises:
            redis.RedisError: Redis is away; everything is tried again in the next round.
        """
        self._deliver_acks(self._waiting_acks())
        self._hand_back_orphans()
        lost = self.scripts.renew(self.holder, self.rules.seconds, self.tokens())
        if news := [token for token in lost if token in self._held and token not in self._lost]:
            log.warning("leases were lost", tokens=news)
        self._lost = frozenset(lost)
        swept = self.scripts.sweep(self.rules.sweep)
        self.swept += swept
        if swept.put_back or swept.buried or swept.extended:
            log.info(
                "leases swept",
                put_back=swept.put_back,
                buried=swept.buried,
                extended=swept.extended,
            )
        if swept.dropped:
            log.warning("the oldest dead letters were dropped", dropped=swept.dropped)

    def _deliver_waiting_acks(self) -> None:
        waiting = self._waiting_acks()
        try:
            self._deliver_acks(waiting)
        except TROUBLE as error:
            log.warning("acknowledgements wait for Redis", tokens=list(waiting), error=str(error))

    def _waiting_acks(self) -> dict[str, str]:
        with self._lock:
            return dict(self._done)

    def _deliver_acks(self, done: Mapping[str, str]) -> None:
        if not done:
            return
        acknowledged = self.scripts.ack(done, self._a_starving_lane())
        if acknowledged.unproven:
            log.warning("Redis lost what was done: it is done again", tokens=acknowledged.unproven)
        with self._lock:
            for token in done:
                self._done.pop(token, None)
                self._held.pop(token, None)

    def _give_up(self, tokens: Iterable[str], tell: Callable[[list[str]], object]) -> None:
        with self._lock:
            mine = [token for token in tokens if self._held.pop(token, None) is not None]
        try:
            tell(mine)
        except TROUBLE as error:
            log.warning("messages are left until their lease ends", tokens=mine, error=str(error))

    def _hand_back_orphans(self) -> None:
        orphans = [self._orphans.popleft() for _ in range(len(self._orphans))]
        self.requeue(token for token in orphans if token not in self._done)

    def _a_starving_lane(self) -> str:
        return next(iter(self._starving), "")

    def _run(self) -> None:
        interval = min(self.rules.seconds / RENEWALS_PER_LEASE, self.rules.sweep.interval)
        trouble = ""
        while not self._stop.wait(interval):
            try:
                self.tend()
                trouble = ""
            except Exception as error:
                if type(error).__name__ != trouble:
                    log.warning("leases not tended", error=f"{type(error).__name__}: {error}")
                trouble = type(error).__name__
