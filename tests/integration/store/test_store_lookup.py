"""What is read from the store once Redis has forgotten it, through the API and the commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import Engine

from hexgen_celery import cli
from hexgen_celery.api import Client
from hexgen_celery.coordination import Coordinator
from hexgen_celery.errors import BrokerUnavailable, UnknownWorkflow
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from hexgen_celery.store.engine import sqlite_file
from hexgen_celery.store.lookup import find_trace
from hexgen_celery.store.recording import Recording
from hexgen_celery.store.stream import RecordStream
from hexgen_celery.workflows.definition import Json
from tests.integration.coordination.support import MemoryBroker, make_submission, run_all
from workers.recorder import Recorder

pytestmark = pytest.mark.integration

NODES: dict[str, list[str]] = {"a": [], "x": ["a"], "b": ["x"]}


@pytest.fixture
def recorded(
    coordinator: Coordinator,
    broker: MemoryBroker,
    redis_client: redis.Redis,
    keys: Keys,
    store: Engine,
    store_settings: Settings,
) -> str:
    """The id of a question that was answered and recorded."""
    submission = make_submission(nodes=NODES, question_key="q7")
    coordinator.start(submission)
    run_all(coordinator, broker, {"rows": [[1]]})
    stream = RecordStream(redis_client, keys, "r1")
    recording = Recording(redis_client, keys, store, stream)
    recorder = Recorder(recording, stream, store_settings)
    while recorder.step(0.01):
        pass
    return submission.workflow_id


@pytest.fixture
def forgotten(recorded: str, redis_client: redis.Redis, keys: Keys) -> str:
    """The id of a question that only the store still knows."""
    for build in (keys.workflow, keys.nodes, keys.trace, keys.bulk):
        redis_client.delete(build(recorded))
    return recorded


@pytest.fixture
def client(store_settings: Settings) -> Iterator[Client]:
    with Client(store_settings) as opened:
        yield opened


@pytest.fixture
def hexgen(store_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command on this deployment; returns its exit code."""
    assert store_settings.store.url is not None
    monkeypatch.setenv("HEXGEN_BROKER__URL", store_settings.broker.url.get_secret_value())
    monkeypatch.setenv("HEXGEN_BROKER__PREFIX", store_settings.broker.prefix)
    monkeypatch.setenv("HEXGEN_STORE__URL", store_settings.store.url.get_secret_value())
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: cli.main(list(arguments))


def test_a_trace_is_redis_own_while_it_knows_it(recorded: str, store_settings: Settings) -> None:
    assert find_trace(store_settings, recorded).source == "Redis"


def test_a_trace_comes_from_the_store_when_redis_has_forgotten_it(
    recorded: str, store_settings: Settings, client: Client, redis_client: redis.Redis, keys: Keys
) -> None:
    before = find_trace(store_settings, recorded).events
    redis_client.delete(keys.trace(recorded))
    found = find_trace(store_settings, recorded)
    assert found.source.startswith("the store ")
    kinds = [
        sorted((e["event"], e.get("node", "")) for e in each) for each in (before, found.events)
    ]
    assert kinds[0] == kinds[1]
    assert client.trace(recorded) == found.events


def _kinds(events: list[Json]) -> list[tuple[str, str]]:
    return sorted((event["event"], event.get("node", "")) for event in events)


def test_a_trace_comes_from_the_store_while_redis_is_away(
    recorded: str, store_settings: Settings
) -> None:
    away = store_settings.broker.model_copy(
        update={"url": type(store_settings.broker.url)("redis://127.0.0.1:1/0")}
    )
    elsewhere = store_settings.model_copy(update={"broker": away})
    assert find_trace(elsewhere, recorded).source.startswith("the store ")
    with pytest.raises(BrokerUnavailable):
        find_trace(elsewhere, "nobody")


def test_status_comes_from_the_store_while_redis_is_away(
    recorded: str, hexgen: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEXGEN_BROKER__URL", "redis://127.0.0.1:1/0")
    assert hexgen("status", recorded, "--json") == 0
    assert json.loads(capsys.readouterr().out)["source"].startswith("the store ")
    assert hexgen("status", "nobody") == 2
    assert "Redis" in capsys.readouterr().err


def test_a_question_that_nobody_knows_is_named(
    store: Engine, store_settings: Settings, client: Client
) -> None:
    with pytest.raises(UnknownWorkflow, match="nobody"):
        find_trace(store_settings, "nobody")
    with pytest.raises(UnknownWorkflow, match="nobody"):
        client.trace("nobody")
    with pytest.raises(UnknownWorkflow, match="nobody"):
        client.status("nobody")


def test_the_status_of_a_forgotten_question_is_the_stores(forgotten: str, client: Client) -> None:
    status = client.status(forgotten)
    assert (status.status, status.question) == ("answered", "Welche Straße?")
    assert status.source.startswith("the store ")
    assert [node.id for node in status.nodes] == ["a", "x", "b"]


def test_the_end_of_a_forgotten_question_is_the_stores(forgotten: str, client: Client) -> None:
    ((name, outcome),) = client.ended([forgotten, "nobody"])
    assert name == forgotten
    assert outcome.detail["source"] == "store"
    assert outcome.detail["status"] == "answered"


def test_trace_says_where_it_comes_from(forgotten: str, hexgen: Any, capsys: Any) -> None:
    assert hexgen("trace", forgotten) == 0
    assert "from the store" in capsys.readouterr().out
    assert hexgen("trace", forgotten, "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)[0]["event"] == "started"
    assert "from the store" in printed.err


def test_forgotten_questions_are_exported(
    forgotten: str, coordinator: Coordinator, broker: MemoryBroker, hexgen: Any, capsys: Any
) -> None:
    coordinator.start(make_submission(nodes=NODES, question_key="q8"))
    run_all(coordinator, broker, {"rows": [[1]]})
    capsys.readouterr()
    assert hexgen("trace", "export") == 0
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.out.splitlines()]
    assert [line["question"] for line in lines] == ["q7", "q8"]
    assert [len(line["requests"]) for line in lines] == [2, 2]
    assert lines[0]["requests"][1]["after"] == lines[1]["requests"][1]["after"] == [0]
    assert "1 from Redis, 1 from the store" in printed.err


def test_history_lists_what_ended(forgotten: str, hexgen: Any, capsys: Any) -> None:
    assert hexgen("status", "--history") == 0
    assert "from the store" in capsys.readouterr().out
    assert hexgen("status", "--history", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in shown["questions"]] == [forgotten]
    assert [(one["questions"], one["met"]) for one in shown["tenants"]] == [(1, 1)]


def test_the_store_shows_what_it_holds_and_what_waits(
    forgotten: str, hexgen: Any, capsys: Any, redis_client: redis.Redis, keys: Keys
) -> None:
    assert hexgen("store", "status", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["rows"]["workflows"], shown["waiting"]["waiting"]) == (1, 0)
    aside: dict[Any, Any] = {"w": "q", "k": "end", "s": "failed", "t": "1", "reason": "[odd]"}
    redis_client.xadd(f"{keys.records}:aside", aside)
    assert hexgen("store", "status") == 1
    assert "q: [odd]" in capsys.readouterr().out
    assert hexgen("store", "retry") == 0
    assert "1 put back" in capsys.readouterr().out
    assert RecordStream(redis_client, keys).backlog().waiting == 1
    redis_client.xadd(f"{keys.records}:aside", aside)
    assert hexgen("store", "forget") == 0
    assert "1 forgotten" in capsys.readouterr().out
    assert hexgen("store", "status") == 0


def test_the_store_is_migrated_and_pruned_by_command(
    empty_store: Engine, hexgen: Any, capsys: Any
) -> None:
    assert hexgen("store", "migrate") == 0
    assert hexgen("store", "prune", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["workflows"] == 0
    assert hexgen("store", "prune") == 0
    assert hexgen("store", "alpha") == 0
    assert hexgen("store", "alpha", "--json") == 0
    assert hexgen("store", "migrate", "--to", "base") == 0
    assert "has version none" in capsys.readouterr().out
    assert hexgen("store", "status") == 1
    assert "hexgen store migrate" in capsys.readouterr().out


def test_a_store_that_is_switched_off_is_said_to_record_nothing(
    empty_store: Engine, hexgen: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEXGEN_STORE__ENABLED", "false")
    assert hexgen("store", "status") == 0
    shown = capsys.readouterr().out
    assert "nothing is recorded: store.enabled = false" in shown
    assert "migrate" not in shown
    assert hexgen("store", "status", "--json") == 0
    assert json.loads(capsys.readouterr().out)["enabled"] is False


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_damaged_store_hides_not_what_waits(
    forgotten: str, store: Engine, hexgen: Any, capsys: Any
) -> None:
    file = sqlite_file(store.url)
    assert file is not None
    store.dispose()
    file.write_bytes(b"no database at all" * 400)
    assert hexgen("store", "status") == 1
    shown = capsys.readouterr().out
    assert "unknown version" in shown
    assert "file is not a database. move the file away" in shown
    assert "0 wait in Redis" in shown
    assert hexgen("store", "status", "--json") == 1
    assert json.loads(capsys.readouterr().out)["waiting"]["waiting"] == 0
