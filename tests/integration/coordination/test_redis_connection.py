"""Connecting to Redis: credentials, unreachable servers, bad URLs. No secret is ever shown."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from hexgen_celery.errors import BrokerUnavailable, InvalidSettings
from hexgen_celery.redis_client import connect
from hexgen_celery.settings import BrokerSettings, Settings
from workers.embedded_redis import EmbeddedRedis

PASSWORD = "s3cr3t/with:odd@signs"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """A Redis that wants a password."""
    with EmbeddedRedis(tmp_path_factory.mktemp("guarded"), password=PASSWORD) as server:
        yield server


def settings_for(url: str, password_file: Path | None = None) -> Settings:
    return Settings(
        broker=BrokerSettings(
            url=SecretStr(url), password_file=password_file, socket_timeout_seconds=2.0
        )
    )


def test_answers_are_text(redis_url: str) -> None:
    with connect(settings_for(redis_url)) as client:
        client.set("k", "ä")
        assert client.get("k") == "ä"


def test_the_password_may_be_in_the_url_or_in_a_file(
    guarded: EmbeddedRedis, tmp_path: Path
) -> None:
    with connect(settings_for(guarded.url)) as client:
        assert client.ping()
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    with connect(settings_for(f"redis://127.0.0.1:{guarded.port}/0", file)) as client:
        assert client.ping()


@pytest.mark.parametrize("credentials", ["", ":wr0ng@"])
def test_refused_credentials_are_said_so(guarded: EmbeddedRedis, credentials: str) -> None:
    with pytest.raises(BrokerUnavailable) as refusal:
        connect(settings_for(f"redis://{credentials}127.0.0.1:{guarded.port}/0"))
    assert "refuses the credentials" in str(refusal.value)
    assert "password" in refusal.value.hint
    assert "wr0ng" not in str(refusal.value)


def test_an_unreachable_server_is_named_without_its_password() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(BrokerUnavailable) as refusal:
            connect(settings_for(f"redis://:hidden@127.0.0.1:{port}/0"))
    assert f"127.0.0.1:{port}" in str(refusal.value)
    assert "hidden" not in str(refusal.value)
    assert refusal.value.field == "broker.url"


@pytest.mark.parametrize("url", ["redis://host:notaport/0", "amqp://host/"])
def test_an_unusable_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidSettings) as refusal:
        connect(settings_for(url))
    assert refusal.value.field == "broker.url"


def test_a_redis_that_cannot_write_to_its_disk_is_not_called_away(tmp_path: Path) -> None:
    """It answers even PING with MISCONF then."""
    lost = tmp_path / "lost"
    lost.mkdir()
    with EmbeddedRedis(tmp_path / "redis") as server:
        settings = settings_for(server.url)
        with connect(settings) as client:
            client.config_set("save", "1000 1000")
            client.config_set("dir", str(lost))
            lost.rmdir()
            client.bgsave()
            until = time.monotonic() + 10.0
            while client.info("persistence")["rdb_last_bgsave_status"] == "ok":
                assert time.monotonic() < until
                time.sleep(0.05)
        with pytest.raises(BrokerUnavailable, match=r"refuses commands: MISCONF") as refusal:
            connect(settings)
    assert "free" in refusal.value.hint
