"""Redis crashes and comes back without its last writes, the work on a message among them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import kombu
import pytest
import redis

from hexgen_celery.transport import process
from hexgen_celery.transport.transport import Transport
from tests.integration.transport.probe import Broker, wait_for
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

QUEUE, PROOF = "hexgen.ask", "what-the-work-made"


@pytest.fixture
def channel(server: EmbeddedRedis) -> Iterator[Any]:
    options = {"lease_seconds": 5.0, "max_connections": 50}
    with kombu.Connection(server.url, transport=Transport, transport_options=options) as opened:
        yield opened.default_channel
        opened.default_channel.keeper.stop()


def _claimed(channel: Any) -> Any:
    with kombu.Producer(channel) as producer:
        producer.publish("ask", routing_key=QUEUE, exchange="", declare=[kombu.Queue(QUEUE)])
    return channel.basic_get(QUEUE)


def _crash_and_lose(server: EmbeddedRedis, write: Any) -> None:
    """Do `write`, which Redis confirms; crash Redis; start it as it was before."""
    kept = server.directory.with_name("kept")
    shutil.copytree(server.directory, kept)
    write()
    server.kill()
    shutil.rmtree(server.directory)
    kept.rename(server.directory)
    server.start()


def test_a_message_whose_work_was_lost_is_delivered_again(
    server: EmbeddedRedis, channel: Any
) -> None:
    message = _claimed(channel)
    with redis.Redis.from_url(server.url) as client:
        _crash_and_lose(server, lambda: client.set(PROOF, 1))
    assert process.prove(message.delivery_tag, PROOF)
    message.ack()
    wait_for(lambda: channel._size(QUEUE) == 1)
    again = channel.basic_get(QUEUE)
    assert again.payload == "ask"
    assert again.headers["redelivered"]


def test_a_message_whose_work_is_there_is_gone(
    server: EmbeddedRedis, channel: Any, broker: Broker
) -> None:
    message = _claimed(channel)
    with redis.Redis.from_url(server.url) as client:
        client.set(PROOF, 1)
        process.prove(message.delivery_tag, PROOF)
        message.ack()
        client.delete(PROOF)
    wait_for(broker.is_empty)
