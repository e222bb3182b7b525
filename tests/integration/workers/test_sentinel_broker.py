"""A deployment whose broker is named by Sentinels: questions, failover, and what is refused."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
import redis
from pydantic import SecretStr

from hexgen_celery.app import create_app
from hexgen_celery.errors import BrokerUnavailable
from hexgen_celery.redis_client import connect, connect_binary
from hexgen_celery.settings import BrokerSettings, Settings
from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import LocalWorkers, deployment_settings, pool_of
from workers.embedded_redis import EmbeddedRedis, free_port
from workers.redis_binary import find_redis_binary

pytestmark = pytest.mark.integration

MASTER = "main"
PASSWORD = "p@ss/w:1"
PATIENCE = 60.0


@contextlib.contextmanager
def bare_redis(directory: Path, port: int, *arguments: str) -> Iterator[None]:
    """A redis-server with these arguments that answers at `port`, for the time of the block."""
    binary = find_redis_binary()
    process = subprocess.Popen(
        [str(binary.path), *arguments],
        env=binary.environment,
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: answers(port))
        yield
    finally:
        process.terminate()
        process.wait(10)


@contextlib.contextmanager
def sentinel(
    directory: Path, watched: int, password: str = "", own_password: str = ""
) -> Iterator[int]:
    """A Sentinel that watches the Redis at port `watched`; its port."""
    port = free_port()
    config = directory / "sentinel.conf"
    login = f"sentinel auth-pass {MASTER} {password}\n" if password else ""
    guard = f"requirepass {own_password}\n" if own_password else ""
    monitor = f"sentinel monitor {MASTER} 127.0.0.1 {watched} 1\n"
    config.write_text(f"port {port}\n{guard}{monitor}{login}")
    with bare_redis(directory, port, str(config), "--sentinel"):
        yield port


def answers(port: int) -> bool:
    try:
        with redis.Redis(port=port) as client:
            return bool(client.ping())
    except redis.AuthenticationError:
        return True
    except redis.ConnectionError:
        return False


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.1)


def sentinel_settings(*ports: int, master: str = MASTER, login: str = "") -> Settings:
    url = ";".join(f"sentinel://{login}127.0.0.1:{port}" for port in ports)
    return Settings(
        broker=BrokerSettings(
            url=SecretStr(f"{url}/2"), sentinel_master=master, socket_timeout_seconds=2.0
        )
    )


@pytest.mark.parametrize("transport", ["urgency", "kombu"])
def test_a_question_is_answered_behind_sentinel_though_the_first_is_down(
    tmp_path: Path, transport: Literal["urgency", "kombu"], monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        FakeLlm() as llm,
        EmbeddedRedis(tmp_path / "redis", password=PASSWORD) as server,
        sentinel(tmp_path, server.port, PASSWORD) as port,
    ):
        plain = deployment_settings(server, "watched", tmp_path, pool_of(llm.url))
        login = server.url.partition("://")[2].rpartition("@")[0]
        url = f"sentinel://{login}@127.0.0.1:{free_port()};sentinel://127.0.0.1:{port}/5"
        broker = BrokerSettings(
            url=SecretStr(url), prefix="watched", transport=transport, sentinel_master=MASTER
        )
        settings = plain.model_copy(update={"broker": broker})
        monkeypatch.setenv("HEXGEN_BROKER__SENTINEL_MASTER", MASTER)
        with LocalWorkers(settings, tmp_path) as workers:
            use_stock_client(workers, f"sentinel://{login}@127.0.0.1:{port}/5")
            workers.start()
            assert workers.chat("watched").get(timeout=PATIENCE)["text"] == "watched"
            with connect(settings) as client:
                assert client.connection_pool.get_master_address() == ("127.0.0.1", server.port)
                assert list(client.scan_iter("*watched*"))
            workers.stop()
            quoted = login.rpartition(":")[2]
            for name in workers.processes:
                assert PASSWORD not in workers.log(name)
                assert quoted not in workers.log(name)


def use_stock_client(workers: LocalWorkers, url: str) -> None:
    """Have the test's client speak to the Sentinel that lives, as any Celery client does."""
    options = {"master_name": MASTER}
    workers.client.conf.update(
        broker_url=url,
        result_backend=url,
        broker_transport_options=options,
        result_backend_transport_options=options,
    )


def test_the_state_client_follows_a_failover(tmp_path: Path) -> None:
    replica = free_port()
    arguments = ("--port", str(replica), "--save", "", "--dir", str(tmp_path))
    with (
        EmbeddedRedis(tmp_path / "redis") as server,
        bare_redis(tmp_path, replica, *arguments, "--replicaof", "127.0.0.1", str(server.port)),
        sentinel(tmp_path, server.port) as port,
        connect(sentinel_settings(port)) as client,
        redis.Redis(port=port, decode_responses=True) as watcher,
    ):
        client.set("k", "before")
        wait_until(lambda: len(watcher.sentinel_slaves(MASTER)) == 1)
        wait_until(lambda: failed_over(watcher))
        wait_until(lambda: watcher.sentinel_get_master_addr_by_name(MASTER)[1] == replica)
        with redis.Redis(port=replica, db=2, decode_responses=True) as promoted:
            assert promoted.get("k") == "before"
            # The old master takes writes until Sentinel has demoted it, and loses them.
            wait_until(lambda: written(client, "after") and promoted.get("k") == "after")


def failed_over(watcher: redis.Redis) -> bool:
    """Whether the failover began; a Sentinel refuses until it knows the replica well."""
    try:
        return bool(watcher.sentinel_failover(MASTER))
    except redis.ResponseError:
        return False


def written(client: redis.Redis, value: str) -> bool:
    try:
        return bool(client.set("k", value))
    except redis.RedisError:
        return False


def test_sentinels_that_cannot_be_reached_are_named() -> None:
    ports = (free_port(), free_port())
    with pytest.raises(BrokerUnavailable, match="no Sentinel at") as refusal:
        connect(sentinel_settings(*ports, login=":s3cr3t@"))
    assert all(f"127.0.0.1:{port}" in str(refusal.value) for port in ports)
    assert refusal.value.field == "broker.url"
    assert "s3cr3t" not in str(refusal.value)


def test_an_unknown_master_is_named(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "redis") as server, sentinel(tmp_path, server.port) as port:
        with connect_binary(sentinel_settings(free_port(), port)) as client:
            assert client.set("k", "v")
            assert client.get("k") == b"v"
        with pytest.raises(BrokerUnavailable, match="name no reachable master 'other'") as refusal:
            connect(sentinel_settings(free_port(), port, master="other"))
    assert refusal.value.field == "broker.sentinel_master"


def test_sentinels_with_a_password_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "theirs"
    file.write_text("theirs\n")
    with (
        EmbeddedRedis(tmp_path / "redis") as server,
        sentinel(tmp_path, server.port, own_password="theirs") as port,
    ):
        settings = sentinel_settings(port)
        with pytest.raises(BrokerUnavailable):
            connect(settings)
        broker = settings.broker.model_copy(update={"sentinel_password_file": file})
        with connect(settings.model_copy(update={"broker": broker})) as client:
            assert client.ping()
        app = create_app(settings.model_copy(update={"broker": broker}))
        with app.connection_for_write() as connection:
            assert connection.default_channel.client.ping()
        app.close()
