"""One tuner at a time, and the next one soon after the death of the one at work."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import redis
import structlog
from redis.exceptions import LockError
from redis.lock import Lock

log = structlog.get_logger(__name__)

# So long a tuner that died keeps the others out; one at work renews its turn four times in it.
TURN_SECONDS = 60.0
RENEWALS = 4


@contextlib.contextmanager
def tuners_turn(client: redis.Redis, key: str, seconds: float = TURN_SECONDS) -> Iterator[bool]:
    """Hold the turn at `key` for as long as the block runs; gives False where another has it.

    Raises:
        redis.RedisError: Redis is away at the beginning or the end.
    """
    # Renewed by another thread than the one that takes it.
    lock = client.lock(key, timeout=seconds, thread_local=False)
    if not lock.acquire(blocking=False):
        yield False
        return
    over = threading.Event()
    renewing = threading.Thread(
        target=_renew, args=(lock, over, seconds / RENEWALS), name="tuners-turn", daemon=True
    )
    renewing.start()
    try:
        yield True
    finally:
        over.set()
        renewing.join()
        # One that stood still for too long has lost it, perhaps to another.
        with contextlib.suppress(LockError):
            lock.release()


def _renew(lock: Lock, over: threading.Event, every_seconds: float) -> None:
    while not over.wait(every_seconds):
        try:
            lock.reacquire()
        except LockError:
            log.warning("another tuner may be at work")
            return
        except redis.RedisError as error:
            log.warning("the turn is not renewed", error=str(error))
