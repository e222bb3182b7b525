"""The one lease keeper of this process for each broker, and what the process admits."""

from __future__ import annotations

import atexit
import math
import os
import threading
from collections.abc import Callable

import redis

from hexgen_celery.core.admission import Allowance
from hexgen_celery.transport.leases import HeldLoad, LeaseKeeper, LeaseRules
from hexgen_celery.transport.scripts import Swept

Admission = Callable[[HeldLoad], Allowance]

_MANY = 1_000_000


def everything_fits(_load: HeldLoad) -> Allowance:
    """The admission of a process without an engine behind it: its thread pool is the limit."""
    return Allowance(math.inf, math.inf, _MANY)


_lock = threading.Lock()
_keepers: dict[tuple[str, str], LeaseKeeper] = {}
_admission: Admission = everything_fits
_background_acks = False


def keeper_of(
    broker: str, root: str, rules: LeaseRules, connect: Callable[[], redis.Redis]
) -> LeaseKeeper:
    """The keeper for `broker` (its URL) and queue root; made at its first use."""
    with _lock:
        keeper = _keepers.get((broker, root))
        if keeper is None:
            keeper = _keepers[broker, root] = LeaseKeeper(connect(), root, rules)
            if _background_acks:
                keeper.acknowledge_in_background()
        return keeper


def use_admission(admission: Admission) -> None:
    """Let `admission` say what claims of this process may still take."""
    global _admission
    _admission = admission


def acknowledge_in_background() -> None:
    """Let keepers made from now on deliver acknowledgements from a thread: for busy workers."""
    global _background_acks
    _background_acks = True


def allowance(keeper: LeaseKeeper) -> Allowance:
    """What this process may take now."""
    return _admission(keeper.load())


def first_token(identity_token: str) -> bool:
    """A request's prefill is done, in whichever keeper holds it.

    Raises:
        redis.RedisError: Redis could not be told.
    """
    return any(keeper.first_token(identity_token) for keeper in list(_keepers.values()))


def prove(token: str, key: str) -> bool:
    """The work of a message held by this process has made `key` in Redis; False when none is."""
    return any(keeper.prove(token, key) for keeper in list(_keepers.values()))


def swept() -> Swept:
    """What the sweeps of this process did together, at all brokers."""
    return sum((keeper.swept for keeper in list(_keepers.values())), Swept())


def hand_back_all() -> None:
    """Give back everything this process holds: it is about to end."""
    for keeper in list(_keepers.values()):
        keeper.stop()
        keeper.hand_back_all()


def _forget_after_fork() -> None:
    """A forked child holds nothing: the parent goes on with its leases."""
    global _lock
    _lock = threading.Lock()
    _keepers.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(hand_back_all)
