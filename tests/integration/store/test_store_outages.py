"""A store that is away, locked or restarted loses nothing; a killed recorder doubles nothing."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import Connection, Engine

from hexgen_celery.coordination import Coordinator
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from hexgen_celery.store.engine import open_store
from hexgen_celery.store.errors import StoreUnavailable
from hexgen_celery.store.reading import StoreReader
from hexgen_celery.store.recording import Recording
from hexgen_celery.store.schema import migrate
from hexgen_celery.store.stream import GROUP, RecordStream
from tests.integration.coordination.support import Dag, MemoryBroker, make_submission, run_all
from tests.integration.store.conftest import stored_at
from tests.integration.store.postgres import PostgresServer
from workers.recorder import Recorder

pytestmark = pytest.mark.integration

PATIENCE_SECONDS = 60.0


def ask(coordinator: Coordinator, broker: MemoryBroker, count: int) -> list[str]:
    """Ask and answer questions; their ids."""
    names = []
    for _ in range(count):
        submission = make_submission(nodes={"a": [], "x": ["a"]})
        coordinator.start(submission)
        run_all(coordinator, broker, {"rows": [[1]]})
        names.append(submission.workflow_id)
    return names


def recorder_of(client: redis.Redis, keys: Keys, engine: Engine, settings: Settings) -> Recorder:
    stream = RecordStream(client, keys, "r1")
    return Recorder(Recording(client, keys, engine, stream), stream, settings)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def recorded(reader: StoreReader, names: list[str]) -> bool:
    """Whether all of them are stored, whole."""
    found = [reader.question(name) for name in names]
    return all(each is not None and each.workflow["complete"] for each in found)


def test_postgres_stopped_and_started_again_loses_no_record(
    postgres: PostgresServer,
    settings: Settings,
    redis_client: redis.Redis,
    keys: Keys,
    broker: MemoryBroker,
) -> None:
    quick = settings.store.model_copy(update={"retry_max_seconds": 0.5})
    url = postgres.create("outage")
    there = stored_at(settings.model_copy(update={"store": quick}), url)
    engine = open_store(there, writing=True)
    migrate(engine)
    coordinator = Coordinator(redis_client, keys, there, {"dag": Dag()}, broker)
    recorder = recorder_of(redis_client, keys, engine, there)
    running = threading.Thread(target=recorder.run)
    running.start()
    try:
        before = ask(coordinator, broker, 5)
        wait_for(lambda: recorded(StoreReader(engine, keys.prefix), before))
        postgres.stop()
        meanwhile = ask(coordinator, broker, 20)
        time.sleep(1.5)
        assert RecordStream(redis_client, keys).backlog().waiting == 40
        postgres.start()
        after = ask(coordinator, broker, 5)
        reader = StoreReader(engine, keys.prefix)
        wait_for(lambda: recorded(reader, before + meanwhile + after))
    finally:
        recorder.stop()
        running.join()
        engine.dispose()
    assert RecordStream(redis_client, keys).backlog().waiting == 0
    assert RecordStream(redis_client, keys).backlog().aside == 0


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux gives up this way")
@pytest.mark.parametrize(("asked", "seconds"), [("", 30), ("?tcp_user_timeout=7000", 7)])
def test_a_postgres_whose_host_vanishes_is_given_up_within_a_minute(
    postgres: PostgresServer, settings: Settings, asked: str, seconds: int
) -> None:
    engine = open_store(stored_at(settings, postgres.url("postgres") + asked), writing=True)
    with engine.connect() as connection, _socket_of(connection) as there:
        assert there.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        probes = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        idle, interval, count = (there.getsockopt(socket.IPPROTO_TCP, each) for each in probes)
        assert 0 < idle + interval * count < 60
        patience = there.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert patience == 1000 * seconds
    engine.dispose()


def _socket_of(connection: Connection) -> socket.socket:
    """The connection's own socket, under a number of its own."""
    driver: Any = connection.connection.dbapi_connection
    return socket.socket(fileno=os.dup(driver.fileno()))


def test_a_locked_sqlite_file_is_waited_for(
    sqlite_url: str,
    settings: Settings,
    redis_client: redis.Redis,
    keys: Keys,
    broker: MemoryBroker,
) -> None:
    hasty = settings.store.model_copy(update={"busy_timeout_seconds": 0.1})
    there = stored_at(settings.model_copy(update={"store": hasty}), sqlite_url)
    engine = open_store(there, writing=True)
    migrate(engine)
    coordinator = Coordinator(redis_client, keys, there, {"dag": Dag()}, broker)
    recorder = recorder_of(redis_client, keys, engine, there)
    names = ask(coordinator, broker, 3)
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="locked"):
            recorder.step(0.1)
    assert RecordStream(redis_client, keys).backlog().waiting == 6
    other.execute("ROLLBACK")
    other.close()
    assert recorder.step(0.1) > 0
    assert recorded(StoreReader(engine, keys.prefix), names)
    assert RecordStream(redis_client, keys).backlog().waiting == 0
    engine.dispose()


def test_a_file_that_was_moved_away_gets_no_more_rows(
    sqlite_url: str,
    settings: Settings,
    redis_client: redis.Redis,
    keys: Keys,
    broker: MemoryBroker,
    tmp_path: Path,
) -> None:
    there = stored_at(settings, sqlite_url)
    engine = open_store(there, writing=True)
    migrate(engine)
    coordinator = Coordinator(redis_client, keys, there, {"dag": Dag()}, broker)
    recorder = recorder_of(redis_client, keys, engine, there)
    before = ask(coordinator, broker, 1)
    recorder.step(0.1)
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in (tmp_path / "store").glob("*.sqlite*"):
        file.rename(moved / file.name)
    after = ask(coordinator, broker, 1)
    recorder.step(0.1)
    reader = StoreReader(engine, keys.prefix)
    assert recorded(reader, after)
    assert reader.question(before[0]) is None
    engine.dispose()


def test_redis_that_forgot_the_group_is_joined_again(
    coordinator: Coordinator,
    broker: MemoryBroker,
    redis_client: redis.Redis,
    keys: Keys,
    store: Engine,
    store_settings: Settings,
) -> None:
    recorder = recorder_of(redis_client, keys, store, store_settings)
    running = threading.Thread(target=recorder.run)
    running.start()
    try:
        reader = StoreReader(store, keys.prefix)
        first = ask(coordinator, broker, 1)
        wait_for(lambda: recorded(reader, first))
        redis_client.flushall()
        second = ask(coordinator, broker, 1)
        wait_for(lambda: recorded(reader, second))
    finally:
        recorder.stop()
        running.join()


def start_recorder(
    settings: Settings, log: Path, faults: str = "", **more: str
) -> subprocess.Popen[bytes]:
    """A recorder process on the test's Redis and store."""
    assert settings.store.url is not None
    environment = {
        **os.environ,
        "HEXGEN_BROKER__URL": settings.broker.url.get_secret_value(),
        "HEXGEN_BROKER__PREFIX": settings.broker.prefix,
        "HEXGEN_STORE__URL": settings.store.url.get_secret_value(),
        "HEXGEN_STORE__BATCH": "4",
        "HEXGEN_FAULTS": faults,
        **more,
    }
    with log.open("ab") as output:
        command = [sys.executable, "-m", "workers.recorder", "--name", "r1"]
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output)


def test_a_recorder_killed_between_store_and_stream_doubles_nothing(
    coordinator: Coordinator,
    broker: MemoryBroker,
    redis_client: redis.Redis,
    keys: Keys,
    store: Engine,
    store_settings: Settings,
    tmp_path: Path,
) -> None:
    names = ask(coordinator, broker, 10)
    log, stream = tmp_path / "recorder.log", RecordStream(redis_client, keys)
    killed = start_recorder(store_settings, log, "after-record=1")
    assert killed.wait(PATIENCE_SECONDS) == -signal.SIGKILL, log.read_text()
    reader = StoreReader(store, keys.prefix)
    written = reader.counts()
    assert written["workflows"] > 0
    assert stream.backlog().waiting == 20
    process = start_recorder(store_settings, log)
    wait_for(lambda: stream.backlog().waiting == 0)
    process.terminate()
    assert process.wait(PATIENCE_SECONDS) == 0, log.read_text()
    assert recorded(reader, names)
    counts = reader.counts()
    assert (counts["workflows"], counts["requests"], counts["executions"]) == (10, 10, 10)


def test_a_second_signal_ends_a_recorder_whose_database_never_answers(
    coordinator: Coordinator,
    broker: MemoryBroker,
    redis_client: redis.Redis,
    keys: Keys,
    store: Engine,
    store_settings: Settings,
    tmp_path: Path,
) -> None:
    """A write lock that is never given back stands for a database that went silent."""
    log, stream = tmp_path / "recorder.log", RecordStream(redis_client, keys)
    patient = {"HEXGEN_STORE__BUSY_TIMEOUT_SECONDS": "600"}
    process = start_recorder(store_settings, log, **patient)
    wait_for(lambda: "recorder starts" in log.read_text())
    with store.begin() as holder:
        if store.dialect.name == "postgresql":
            holder.exec_driver_sql("LOCK TABLE workflows IN ACCESS EXCLUSIVE MODE")
        names = ask(coordinator, broker, 1)
        wait_for(lambda: pending_of(redis_client, keys) > 0)
        time.sleep(1.0)
        process.terminate()
        time.sleep(1.0)
        assert process.poll() is None, "the batch may still succeed"
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
    assert stream.backlog().waiting == 2
    successor = start_recorder(store_settings, log)
    wait_for(lambda: stream.backlog().waiting == 0)
    successor.terminate()
    assert successor.wait(PATIENCE_SECONDS) == 0, log.read_text()
    assert recorded(StoreReader(store, keys.prefix), names)


def pending_of(client: redis.Redis, keys: Keys) -> int:
    """How many entries a recorder has taken and not finished."""
    pending: Any = client.xpending(keys.records, GROUP)
    return int(pending["pending"])


def test_a_recorder_names_the_command_when_the_store_is_outdated(
    store_settings: Settings, empty_store: Engine, tmp_path: Path
) -> None:
    with empty_store.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE other (id INTEGER)")
    process = start_recorder(store_settings, tmp_path / "log")
    assert process.wait(PATIENCE_SECONDS) == 2
    assert "hexgen store migrate" in (tmp_path / "log").read_text()
