"""Acknowledgements from a thread: they all arrive, many in one delivery, and outlast Redis' end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import kombu
import pytest

from hexgen_celery.transport.acknowledgements import AckThread
from hexgen_celery.transport.leases import LeaseKeeper
from hexgen_celery.transport.transport import Transport
from tests.integration.transport.probe import Broker, wait_for
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

QUEUE = "sql"


@pytest.fixture
def channel(server: EmbeddedRedis) -> Iterator[Any]:
    options = {"lease_seconds": 5.0, "max_connections": 50}
    with kombu.Connection(server.url, transport=Transport, transport_options=options) as opened:
        opened.default_channel.keeper.acknowledge_in_background()
        yield opened.default_channel
        opened.default_channel.keeper.stop()


def _claimed(channel: Any, count: int) -> list[Any]:
    with kombu.Producer(channel) as producer:
        for number in range(count):
            producer.publish(number, routing_key=QUEUE, exchange="", declare=[kombu.Queue(QUEUE)])
    return [channel.basic_get(QUEUE) for _ in range(count)]


def test_every_acknowledgement_arrives(channel: Any, broker: Broker) -> None:
    messages = _claimed(channel, 200)
    threads = [
        threading.Thread(target=lambda part: [each.ack() for each in part], args=(messages[i::4],))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(broker.is_empty)
    assert channel.keeper.tokens() == []


def test_room_is_free_before_redis_hears_of_it(
    channel: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper: LeaseKeeper = channel.keeper
    heard, go_on = threading.Event(), threading.Event()
    deliver = keeper.scripts.ack

    def slow(*arguments: Any) -> Any:
        heard.set()
        assert go_on.wait(20)
        return deliver(*arguments)

    monkeypatch.setattr(keeper.scripts, "ack", slow)
    (message,) = _claimed(channel, 1)
    message.ack()
    assert heard.wait(20)
    assert keeper.load().running == 0
    assert len(keeper.tokens()) == 1
    go_on.set()
    wait_for(broker.is_empty)


def test_acknowledgements_gather_while_one_is_delivered() -> None:
    batches: list[int] = []
    waiting: list[int] = []
    first_under_way, go_on = threading.Event(), threading.Event()

    def deliver() -> None:
        taken = len(waiting)
        del waiting[:taken]
        batches.append(taken)
        first_under_way.set()
        assert go_on.wait(20)

    thread = AckThread(deliver)
    waiting.append(0)
    thread.wake()
    assert first_under_way.wait(20)
    for number in range(50):
        waiting.append(number)
        thread.wake()
    go_on.set()
    thread.stop()
    assert batches == [1, 50]


def test_a_failed_delivery_does_not_end_the_thread() -> None:
    calls: list[int] = []
    done = threading.Event()

    def deliver() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("strange answer")
        done.set()

    thread = AckThread(deliver)
    thread.wake()
    wait_for(lambda: len(calls) == 1)
    thread.wake()
    assert done.wait(20)
    thread.stop()


def test_what_redis_did_not_hear_is_delivered_when_it_is_back(
    channel: Any, server: EmbeddedRedis, broker: Broker
) -> None:
    messages = _claimed(channel, 3)
    server.stop()
    for message in messages:
        message.ack()
    server.start()
    wait_for(lambda: _tended(channel.keeper) and broker.is_empty())


def _tended(keeper: LeaseKeeper) -> bool:
    """One round of the keeper's own thread, once Redis answers."""
    try:
        keeper.tend()
    except Exception:
        return False
    return True
