"""Kombu's channel interface on sorted sets and leased lists, and the ways to connect."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import kombu
import pytest
import redis
from kombu.exceptions import ChannelError

from hexgen_celery.transport.messages import HEADER, HEADER_VERSION, Urgency
from hexgen_celery.transport.transport import SentinelTransport, Transport
from tests.integration.transport.probe import Broker, wait_for
from workers.embedded_redis import EmbeddedRedis, free_port
from workers.redis_binary import find_redis_binary

pytestmark = pytest.mark.integration

QUEUES = ("sql", "tasks")
BOTH = pytest.mark.parametrize("queue", QUEUES)


def connect(url: str, **options: Any) -> kombu.Connection:
    options = {"lease_seconds": 5.0, "max_connections": 50, **options}
    return kombu.Connection(url, transport=Transport, transport_options=options)


@pytest.fixture
def connection(server: EmbeddedRedis) -> Iterator[kombu.Connection]:
    with connect(server.url) as opened:
        yield opened


def publish(connection: kombu.Connection, queue: str, *bodies: Any, **options: Any) -> None:
    with connection.Producer() as producer:
        for body in bodies:
            producer.publish(
                body, routing_key=queue, exchange="", declare=[kombu.Queue(queue)], **options
            )


def get_all(connection: kombu.Connection, queue: str, **options: Any) -> list[Any]:
    found = []
    while (message := connection.default_channel.basic_get(queue, **options)) is not None:
        found.append(message)
    return found


@BOTH
def test_size_get_and_ack(connection: kombu.Connection, broker: Broker, queue: str) -> None:
    publish(connection, queue, 1, 2, 3)
    channel = connection.default_channel
    assert channel.queue_declare(queue).message_count == 3
    messages = get_all(connection, queue)
    assert [message.decode() for message in messages] == [1, 2, 3]
    assert (channel._size(queue), broker.held()) == (0, 3)
    for message in messages:
        message.ack()
    assert broker.is_empty()


@BOTH
def test_get_without_acknowledgement_leaves_nothing(
    connection: kombu.Connection, broker: Broker, queue: str
) -> None:
    publish(connection, queue, "x")
    assert len(get_all(connection, queue, no_ack=True)) == 1
    publish(connection, queue, "y")
    assert connection.default_channel._get(queue)["headers"] is not None
    assert broker.is_empty()


@BOTH
def test_purge_and_delete(connection: kombu.Connection, broker: Broker, queue: str) -> None:
    channel = connection.default_channel
    bound = kombu.Queue(queue, kombu.Exchange(queue), routing_key=queue)(channel)
    bound.declare()
    publish(connection, queue, *range(1200))
    assert channel._has_queue(queue)
    assert bound.purge() == 1200
    assert channel._size(queue) == 0
    publish(connection, queue, "left")
    bound.delete()
    assert not channel._has_queue(queue)
    with pytest.raises(ChannelError):
        channel.queue_declare(queue, passive=True)
    assert broker.is_empty()


@BOTH
def test_reject_requeue_and_recover(
    connection: kombu.Connection, broker: Broker, queue: str
) -> None:
    publish(connection, queue, "a", "b")
    first, second = get_all(connection, queue)
    first.requeue()
    assert connection.default_channel._size(queue) == 1
    connection.default_channel.basic_recover(requeue=True)
    assert connection.default_channel._size(queue) == 2
    again = get_all(connection, queue)
    assert {message.decode() for message in again} == {"a", "b"}
    assert all(message.headers["redelivered"] for message in again)
    again[0].reject()
    again[1].ack()
    assert len(broker.inspector.dead_letters()) == 1
    assert second.decode() == "b"


@BOTH
def test_restore_by_tag_and_by_message(
    connection: kombu.Connection, broker: Broker, queue: str
) -> None:
    publish(connection, queue, "a")
    channel = connection.default_channel
    (message,) = get_all(connection, queue)
    channel.qos.restore_by_tag(message.delivery_tag)
    (message,) = get_all(connection, queue)
    channel._restore(message)
    (message,) = get_all(connection, queue)
    channel._restore_at_beginning(message)
    assert (channel._size(queue), broker.held()) == (1, 0)


@BOTH
def test_closing_a_connection_hands_back_what_it_holds(
    server: EmbeddedRedis, broker: Broker, queue: str
) -> None:
    with connect(server.url) as connection:
        publish(connection, queue, "a")
        assert len(get_all(connection, queue)) == 1
        assert broker.held() == 1
    assert (broker.held(), broker.waiting(queue)) == (0, 1)


def test_what_stock_kombu_left_unacknowledged_is_restored_in_form(
    connection: kombu.Connection, broker: Broker
) -> None:
    channel = connection.default_channel
    for queue in QUEUES:
        kombu.Queue(queue, kombu.Exchange(queue), routing_key=queue)(channel).declare()
        payload = channel.prepare_message('"left"', content_type="application/json")
        channel._inplace_augment_message(payload, queue, queue)
        with broker.client.pipeline() as pipe:
            channel._do_restore_message(payload, queue, queue, pipe)
            pipe.execute()
        assert channel._size(queue) == 1


@BOTH
def test_a_batch_publishes_too(connection: kombu.Connection, queue: str) -> None:
    channel = connection.default_channel
    batch = channel.create_publish_batch(10)
    message = channel.prepare_message('"x"', content_type="application/json")
    batch.publish(message, exchange="", routing_key=queue)
    assert channel._size(queue) == 0
    batch.flush()
    batch.close()
    assert channel._size(queue) == 1


def test_a_consumer_that_drains_events_gets_messages_by_urgency(
    connection: kombu.Connection, broker: Broker
) -> None:
    for key in (3, 1, 2):
        publish(connection, "sql", key, headers={"id": str(key), HEADER: Urgency(key).to_header()})
    got: list[Any] = []

    def receive(body: Any, message: Any) -> None:
        got.append(body)
        message.ack()

    with connection.Consumer(kombu.Queue("sql"), callbacks=[receive], prefetch_count=1):
        for _ in range(3):
            connection.drain_events(timeout=5)
        with pytest.raises(socket.timeout):
            connection.drain_events(timeout=0.2)
    assert got == [1, 2, 3]
    assert broker.is_empty()


@BOTH
def test_a_consumer_without_acknowledgement_leaves_nothing(
    connection: kombu.Connection, broker: Broker, queue: str
) -> None:
    publish(connection, queue, "a", "b")
    got: list[Any] = []
    consumer = connection.Consumer(
        kombu.Queue(queue), callbacks=[lambda body, m: got.append(body)], no_ack=True
    )
    with consumer:
        for _ in range(2):
            connection.drain_events(timeout=5)
    assert got == ["a", "b"]
    assert broker.is_empty()


def test_what_is_no_message_becomes_a_dead_letter(
    connection: kombu.Connection, broker: Broker
) -> None:
    broker.client.lpush("tasks", "{nonsense", '{"json": "but no message"}')
    publish(connection, "tasks", "good")
    (message,) = get_all(connection, "tasks")
    message.ack()
    broker.client.lpush("tasks", "nonsense again", '{"properties": {"delivery_tag": "cut o')
    with connection.Consumer(kombu.Queue("tasks")), pytest.raises(socket.timeout):
        connection.drain_events(timeout=0.5)
    causes = [letter.cause for letter in broker.inspector.dead_letters()]
    assert len(causes) == 4
    assert all("not a message of Kombu's" in cause for cause in causes)


def test_a_lost_script_cache_is_noticed(connection: kombu.Connection, broker: Broker) -> None:
    publish(connection, "sql", "a")
    broker.client.script_flush()
    got: list[Any] = []
    with connection.Consumer(kombu.Queue("sql"), callbacks=[lambda body, m: got.append(body)]):
        broker.client.script_flush()
        connection.drain_events(timeout=5)
    assert got == ["a"]


def test_a_global_key_prefix_separates_two_deployments(
    server: EmbeddedRedis, broker: Broker
) -> None:
    for queue in QUEUES:
        with connect(server.url, global_keyprefix="one.") as connection:
            publish(connection, queue, "a")
        with connect(server.url, global_keyprefix="two.") as other:
            assert get_all(other, queue) == []
        with connect(server.url, global_keyprefix="one.") as connection:
            assert len(get_all(connection, queue, no_ack=True)) == 1
    keys = {key.decode() for key in cast("list[bytes]", broker.client.keys("*"))}
    assert keys
    assert all(key.startswith(("one.", "two.")) for key in keys)


def test_an_acl_user_that_may_use_our_keys_only(server: EmbeddedRedis, broker: Broker) -> None:
    broker.client.execute_command(  # type: ignore[no-untyped-call]
        "ACL", "SETUSER", "worker", "on", ">secret", "+@all", "-@dangerous", "+info",
        "~{hexgen}:*", "~_kombu.*", "~tasks*", "&*",
    )  # fmt: skip
    url = server.url.replace("redis://", "redis://worker:secret@")
    for queue in QUEUES:
        with connect(url) as connection:
            publish(connection, queue, "a")
            (message,) = get_all(connection, queue)
            message.ack()
    assert broker.is_empty()


def test_a_socket_is_connected_to(tmp_path: Path) -> None:
    """The application's URL for it names our transport, since Kombu reads it from there."""
    from celery import Celery

    from hexgen_celery.broker import queue_url

    path = tmp_path / "r.sock"
    with _redis(tmp_path, "--unixsocket", str(path), "--port", "0", "--save", ""):
        wait_for(path.exists)
        app = Celery("x", broker=queue_url(f"unix://{path}", "urgency"), set_as_current=False)
        with app.connection_for_write() as connection:
            assert isinstance(connection.transport, Transport)
            publish(connection, "sql", "a")
            assert len(get_all(connection, "sql")) == 1


def test_tls_is_spoken(server: EmbeddedRedis, broker: Broker, tmp_path: Path) -> None:
    certificate = _self_signed(tmp_path)
    with TlsFront(server.port, certificate) as port:
        url = f"rediss://127.0.0.1:{port}/0?ssl_cert_reqs=required&ssl_ca_certs={certificate}"
        for queue in QUEUES:
            with connect(url) as connection:
                publish(connection, queue, "a")
                (message,) = get_all(connection, queue)
                message.ack()
    assert broker.is_empty()


def test_messages_of_another_release_are_delivered_by_arrival(
    connection: kombu.Connection, broker: Broker
) -> None:
    later = {"version": HEADER_VERSION + 1, "latest_start": 1.0}
    unversioned = [0.0, None, 0.0, 0, 0, 0, 0]
    publish(connection, "sql", "later", headers={"id": "a", HEADER: later})
    publish(connection, "sql", "unversioned", headers={"id": "b", HEADER: unversioned})
    urgent = Urgency(1.0).to_header()
    publish(connection, "sql", "urgent", headers={"id": "c", HEADER: urgent})
    messages = get_all(connection, "sql")
    assert [message.decode() for message in messages] == ["urgent", "later", "unversioned"]
    assert {message.headers[HEADER]["version"] for message in messages} == {HEADER_VERSION}
    for message in messages:
        message.ack()
    assert broker.is_empty()


def test_sentinel_names_the_server(server: EmbeddedRedis, tmp_path: Path, broker: Broker) -> None:
    port = free_port()
    config = tmp_path / "sentinel.conf"
    config.write_text(f"port {port}\nsentinel monitor main 127.0.0.1 {server.port} 1\n")
    with _redis(tmp_path, str(config), "--sentinel"):
        _answers(port)
        options = {"master_name": "main", "lease_seconds": 5.0}
        with kombu.Connection(
            f"sentinel://127.0.0.1:{port}", transport=SentinelTransport, transport_options=options
        ) as connection:
            for queue in QUEUES:
                publish(connection, queue, "a")
                (message,) = get_all(connection, queue)
                message.ack()
    assert broker.is_empty()


def _self_signed(directory: Path) -> Path:
    """A certificate with its key in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl program to make a certificate")
    path = directory / "tls.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-keyout", str(path), "-out", str(path), "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return path


class TlsFront:
    """A TLS port in front of a Redis without one: decrypts and passes on."""

    def __init__(self, redis_port: int, certificate: Path) -> None:
        self._redis_port = redis_port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> int:
        self._thread.start()
        serve = asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        server = asyncio.run_coroutine_threadsafe(serve, self._loop).result(10)
        return int(server.sockets[0].getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        redis_reader, redis_writer = await asyncio.open_connection("127.0.0.1", self._redis_port)
        await asyncio.gather(_pass_on(reader, redis_writer), _pass_on(redis_reader, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()


class _redis:
    """A bare redis-server with these arguments, for the time of the block."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        binary = find_redis_binary()
        self.process = subprocess.Popen(
            [str(binary.path), *arguments],
            env=binary.environment,
            cwd=directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> None:
        assert self.process.poll() is None

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(10)


def _answers(port: int) -> None:
    with redis.Redis(port=port) as client:

        def ping() -> bool:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                time.sleep(0.05)
                return False

        wait_for(ping)
