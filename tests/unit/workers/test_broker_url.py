"""The broker's URL as the libraries need it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from hexgen_celery.broker import broker_url, celery_url
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.settings import BrokerSettings, Settings


def _settings(url: str, password_file: Path | None = None) -> Settings:
    return Settings(broker=BrokerSettings(url=SecretStr(url), password_file=password_file))


@pytest.mark.parametrize(
    ("url", "used"),
    [
        ("redis://host:6379/2", "redis://host:6379/2"),
        ("redis://u:p@host/0", "redis://u:p@host/0"),
        ("rediss://host/0", "rediss://host/0?ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_cert_reqs=none", "rediss://host/0?ssl_cert_reqs=none"),
        (
            "rediss://host/0?ssl_ca_certs=/ca.pem",
            "rediss://host/0?ssl_ca_certs=%2Fca.pem&ssl_cert_reqs=required",
        ),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
    ],
)
def test_certificates_are_checked_unless_the_url_says_otherwise(url: str, used: str) -> None:
    assert broker_url(_settings(url)) == used


@pytest.mark.parametrize(
    ("url", "used"),
    [
        ("redis://host:6379/0", "redis://:p%40ss%2Fword@host:6379/0"),
        ("redis://bob@host/0", "redis://bob:p%40ss%2Fword@host/0"),
        ("redis://bob:old@host/0", "redis://bob:p%40ss%2Fword@host/0"),
    ],
)
def test_the_password_comes_from_its_file(url: str, used: str, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("p@ss/word\n")
    assert broker_url(_settings(url, secret)) == used


def test_an_unreadable_password_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="nowhere") as caught:
        broker_url(_settings("redis://host", tmp_path / "nowhere"))
    assert caught.value.field == "broker.password_file"


def test_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(InvalidSettings, match="redis://, rediss://, unix://"):
        broker_url(_settings("amqp://host"))


def test_celery_spells_sockets_differently() -> None:
    assert celery_url("unix:///run/redis.sock") == "redis+socket:///run/redis.sock"
    assert celery_url("redis://host/0") == "redis://host/0"
