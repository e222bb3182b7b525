"""The thread that hears cancels, on a real Redis."""

from __future__ import annotations

import threading

import redis

from hexgen_celery.keys import Keys
from hexgen_celery.references import RequestRef
from workers.cancellation import CancelListener, InFlight

PATIENCE = 20.0
REF = RequestRef("w1", "candidate.1", 1)


def test_a_message_that_is_no_text_does_not_deafen_the_worker(
    redis_client: redis.Redis, keys: Keys
) -> None:
    in_flight, stopped = InFlight(), threading.Event()
    listener = CancelListener(redis_client, keys.cancels, in_flight)
    listener.start()
    try:
        with in_flight.track(REF) as running:
            running.token.subscribe(stopped.set)
            _publish(redis_client, keys, b"\xff\xfe")
            # A cancel published between two subscriptions is heard by nobody: the lease keeper
            # makes up for it, and this test says it again.
            for _ in range(int(PATIENCE * 10)):
                _publish(redis_client, keys, b"w1")
                if stopped.wait(0.1):
                    break
            assert stopped.is_set()
    finally:
        listener.stop()


def _publish(client: redis.Redis, keys: Keys, message: bytes) -> None:
    """Publish once somebody listens."""
    for _ in range(int(PATIENCE * 100)):
        if client.publish(keys.cancels, message):
            return
        threading.Event().wait(0.01)
    raise AssertionError("nobody listens for cancels")
