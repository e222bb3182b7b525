"""URLs of Sentinels: read, completed, refused; what Celery and Kombu are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from hexgen_celery.app import create_app
from hexgen_celery.broker import broker_url, queue_url
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.sentinels import SentinelUrl, parse
from hexgen_celery.settings import BrokerSettings, Settings

TWO = "sentinel://one:1;sentinel://us%40er:p%2Fw@[::1]/3"


def settings_for(url: str, **broker: object) -> Settings:
    given = {"sentinel_master": "main", **broker}
    return Settings(broker=BrokerSettings(url=SecretStr(url), **given))  # type: ignore[arg-type]


def test_every_part_gets_the_credentials_and_the_database() -> None:
    read = parse(TWO)
    assert read == SentinelUrl((("one", 1), ("::1", 26379)), 3, "us@er", "p/w")
    login = "us%40er:p%2Fw@"
    assert read.text() == f"sentinel://{login}one:1/3;sentinel://{login}[::1]:26379/3"
    assert parse(read.text()) == read
    assert read.place == "one:1, [::1]:26379"


def test_the_password_file_wins(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("a:b\n")
    url = broker_url(settings_for("sentinel://:old@one:1", password_file=file))
    assert url == "sentinel://:a%3Ab@one:1/0"


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("sentinel://one:1;redis://two:2", "part 2"),
        ("sentinel://one:1;", "part 2"),
        ("sentinel://:1", "part 1"),
        ("sentinel://one:1/main", "database"),
        ("sentinel://one:secret", "port"),
    ],
)
def test_a_url_that_cannot_be_read_is_refused(url: str, named: str) -> None:
    with pytest.raises(InvalidSettings, match=named) as refusal:
        broker_url(settings_for(url))
    assert refusal.value.field == "broker.url"
    assert "secret" not in str(refusal.value)


def test_the_master_must_be_named() -> None:
    with pytest.raises(InvalidSettings, match="not the master") as refusal:
        broker_url(settings_for(TWO, sentinel_master=None))
    assert refusal.value.field == "broker.sentinel_master"
    assert "sentinel monitor" in refusal.value.hint


def test_each_transport_sees_its_own_spelling() -> None:
    text = parse("sentinel://one:1;sentinel://two:2/3").text()
    assert queue_url(text, "kombu") == text
    assert queue_url(text, "urgency") == "hexgen-sentinel://one:1/3"


def test_queues_and_results_know_the_master_and_all_sentinels() -> None:
    conf = create_app(settings_for("sentinel://one:1;sentinel://two:2/3")).conf
    assert conf.broker_transport == "hexgen-sentinel"
    assert conf.result_backend == "sentinel://one:1/3;sentinel://two:2/3"
    for options in (conf.broker_transport_options, conf.result_backend_transport_options):
        assert options["master_name"] == "main"
        assert options["sentinels"] == (("one", 1), ("two", 2))
        assert options["sentinel_kwargs"]["password"] is None
    plain = create_app(settings_for("redis://one:1/3")).conf
    assert "master_name" not in plain.broker_transport_options


def test_the_sentinels_password_comes_from_its_own_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("theirs\n")
    url = "sentinel://:ours@one:1/3"
    conf = create_app(settings_for(url, sentinel_password_file=file)).conf
    for options in (conf.broker_transport_options, conf.result_backend_transport_options):
        assert options["sentinel_kwargs"]["password"] == "theirs"
    with pytest.raises(InvalidSettings, match="cannot read the password file") as refusal:
        create_app(settings_for(url, sentinel_password_file=tmp_path / "none"))
    assert refusal.value.field == "broker.sentinel_password_file"
