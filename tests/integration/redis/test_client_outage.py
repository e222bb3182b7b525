"""A client whose Redis goes away while it waits, and comes back or does not."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from celery import states
from celery.exceptions import TaskRevokedError
from pydantic import SecretStr

from hexgen_celery import asking_again
from hexgen_celery.api import Client
from hexgen_celery.app import create_app
from hexgen_celery.errors import BrokerUnavailable
from hexgen_celery.names import ASK_QUEUE
from hexgen_celery.results import ResultReader
from hexgen_celery.settings import BrokerSettings, Settings
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    """A Redis of the test's own, which keeps its port over a restart."""
    with EmbeddedRedis(tmp_path / "redis") as running:
        yield running


def settings_of(server: EmbeddedRedis) -> Settings:
    return Settings(broker=BrokerSettings(url=SecretStr(server.url)))


def reader_of(server: EmbeddedRedis, outage_seconds: float) -> ResultReader:
    return ResultReader(create_app(settings_of(server), "client"), outage_seconds)


def test_waiting_outlasts_a_restart(server: EmbeddedRedis) -> None:
    app = create_app(settings_of(server), "client")
    reader = reader_of(server, outage_seconds=60)
    app.backend.store_result("first", TaskRevokedError("revoked"), states.REVOKED)
    ended: list[str] = []
    waiting = threading.Thread(
        target=lambda: ended.extend(
            name for name, _ in reader.as_completed(["first", "second"], 60)
        )
    )
    waiting.start()
    while not ended and waiting.is_alive():
        time.sleep(0.01)
    server.stop()
    time.sleep(0.3)
    server.start()
    app.backend.store_result("second", TaskRevokedError("revoked"), states.REVOKED)
    waiting.join(60)
    assert ended == ["first", "second"]


def test_an_outage_without_end_is_told(server: EmbeddedRedis) -> None:
    reader = reader_of(server, outage_seconds=0.2)
    assert list(reader.as_completed(["absent"], 0)) == []
    server.stop()
    with pytest.raises(BrokerUnavailable, match="connection to Redis was lost"):
        list(reader.as_completed(["absent"], None))


def test_a_question_that_redis_forgot_is_asked_again(
    server: EmbeddedRedis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking_again, "LOOK_SECONDS", 0.2)
    shop = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(shop)) as database:
        database.execute("CREATE TABLE item (name TEXT)")
        database.commit()
    with Client(settings_of(server)) as client, redis.Redis.from_url(server.url) as direct:
        client.add_database(shop)
        asked = client.ask("How many?", "shop", 30.0)
        before = direct.lrange(ASK_QUEUE, 0, -1)
        direct.delete(ASK_QUEUE)
        assert list(client.completed([asked], timeout=3)) == []
        again = direct.lrange(ASK_QUEUE, 0, -1)
    assert len(before) == 1
    assert [json.loads(each)["headers"]["id"] for each in again] == [asked.id]
    assert json.loads(again[0])["body"] == json.loads(before[0])["body"]


def test_every_call_of_the_client_names_a_lost_broker(server: EmbeddedRedis) -> None:
    with Client(settings_of(server)) as client:
        assert client.running() == []
        server.stop()
        for call in (client.running, client.queues, client.databases):
            with pytest.raises(BrokerUnavailable, match="connection to Redis was lost"):
                call()
