"""Questions on their way from Redis into the store, in both kinds of database."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import redis
from sqlalchemy import Engine

from hexgen_celery.coordination import Coordinator
from hexgen_celery.keys import Keys
from hexgen_celery.overview.counts import CountsReader
from hexgen_celery.settings import Settings
from hexgen_celery.store.reading import StoreReader
from hexgen_celery.store.recording import Recording
from hexgen_celery.store.stream import GROUP, Backlog, RecordStream
from hexgen_celery.trace import TraceReader
from hexgen_celery.workflows.definition import Json
from tests.integration.coordination.support import (
    ERROR,
    Dag,
    MemoryBroker,
    make_submission,
    run_all,
)
from workers.recorder import Recorder

pytestmark = pytest.mark.integration

NODES: dict[str, list[str]] = {"a": [], "b": ["a"], "x1": ["b"]}
Make = Callable[[str], Recorder]


@pytest.fixture
def make_recorder(
    redis_client: redis.Redis, keys: Keys, store: Engine, store_settings: Settings
) -> Make:
    def make(name: str) -> Recorder:
        stream = RecordStream(redis_client, keys, name)
        return Recorder(Recording(redis_client, keys, store, stream), stream, store_settings)

    return make


@pytest.fixture
def recorder(make_recorder: Make) -> Recorder:
    return make_recorder("r1")


@pytest.fixture
def reader(store: Engine, keys: Keys) -> StoreReader:
    return StoreReader(store, keys.prefix)


def record_all(recorder: Recorder) -> int:
    """Record until nothing waits; rows written."""
    total = 0
    while written := recorder.step(wait_seconds=0.05):
        total += written
    return total


def ask(coordinator: Coordinator, broker: MemoryBroker, **options: Any) -> str:
    """Ask and answer a question; its id."""
    submission = make_submission(**{"nodes": NODES, **options})
    coordinator.start(submission)
    run_all(coordinator, broker, {"rows": [[1]]})
    return submission.workflow_id


def test_an_answered_question_is_stored_whole(
    coordinator: Coordinator, broker: MemoryBroker, recorder: Recorder, reader: StoreReader
) -> None:
    name = ask(coordinator, broker)
    record_all(recorder)
    found = reader.question(name)
    assert found is not None
    row = found.workflow
    assert (row["status"], row["question"], row["sql"]) == (
        "answered",
        "Welche Straße?",
        "SELECT 1",
    )
    assert row["complete"]
    assert row["deadline_met"]
    assert row["output_tokens"] == 15
    assert [each["node"] for each in found.requests] == ["a", "b"]
    assert [each["after"] for each in found.requests] == [[], ["a"]]
    assert [(each["node"], each["sql"]) for each in found.executions] == [("x1", "SELECT 'x1'")]
    assert len(found.decisions) == 3


def test_stored_events_are_those_that_happened(
    coordinator: Coordinator,
    broker: MemoryBroker,
    recorder: Recorder,
    reader: StoreReader,
    redis_client: redis.Redis,
    keys: Keys,
) -> None:
    submission = make_submission(nodes=NODES)
    coordinator.start(submission)
    first = broker.take()
    coordinator.claim(first.ref, worker="w", instance="i", queue="q")
    coordinator.fail(first.ref, ERROR, retryable=True)
    second = broker.take()
    coordinator.claim(second.ref, worker="w", instance="i", queue="q")
    coordinator.first_token(second.ref)
    tokens = {"input_tokens": 100, "output_tokens": 5, "cached_tokens": 20, "seconds": 0.5}
    coordinator.complete(second.ref, {"text": "", **tokens})
    run_all(coordinator, broker, {"rows": [[1]]})
    record_all(recorder)
    happened = TraceReader(redis_client, keys).of(submission.workflow_id)
    found = reader.question(submission.workflow_id)
    assert found is not None
    assert _comparable(found.events) == _comparable(happened)


def _comparable(events: list[Json]) -> list[str]:
    """Events without empty values and counts that a server left out, in one order."""
    plain = [
        {name: _rounded(value) for name, value in event.items() if value not in ("", None, 0, [])}
        for event in events
    ]
    for event in plain:
        if event.get("node") in ("b", "x1"):
            event.pop("input_tokens", None)
            event.pop("output_tokens", None)
    return sorted(json.dumps(event, sort_keys=True) for event in plain)


def _rounded(value: Any) -> Any:
    """Scripts keep 14 digits of a number."""
    return round(float(value), 3) if isinstance(value, int | float) else value


def test_a_running_question_is_known_from_its_beginning(
    coordinator: Coordinator, broker: MemoryBroker, recorder: Recorder, reader: StoreReader
) -> None:
    submission = make_submission(nodes=NODES)
    coordinator.start(submission)
    record_all(recorder)
    found = reader.question(submission.workflow_id)
    assert found is not None
    assert (found.workflow["status"], found.workflow["complete"]) == ("running", False)
    run_all(coordinator, broker)
    record_all(recorder)
    found = reader.question(submission.workflow_id)
    assert found is not None
    assert (found.workflow["status"], found.workflow["complete"]) == ("answered", True)


def test_endings_without_an_answer_are_stored(
    coordinator: Coordinator, broker: MemoryBroker, recorder: Recorder, reader: StoreReader
) -> None:
    cancelled, early, failed = (make_submission(nodes=NODES) for _ in range(3))
    coordinator.cancel(early.workflow_id)
    for submission in (cancelled, early, failed):
        coordinator.start(submission)
    entry = next(e for e in broker.messages if e.ref.workflow_id == failed.workflow_id)
    coordinator.claim(entry.ref, worker="w", queue="q")
    coordinator.fail(entry.ref, ERROR, retryable=False)
    coordinator.cancel(cancelled.workflow_id, "enough")
    record_all(recorder)
    found = [reader.question(each.workflow_id) for each in (cancelled, early, failed)]
    rows = [each.workflow for each in found if each is not None]
    assert [row["status"] for row in rows] == ["cancelled", "cancelled", "failed"]
    assert [row["cause"] for row in rows] == ["enough", "cancelled", ERROR["message"]]


def test_an_entry_that_comes_twice_changes_nothing(
    coordinator: Coordinator,
    broker: MemoryBroker,
    recorder: Recorder,
    reader: StoreReader,
    redis_client: redis.Redis,
    keys: Keys,
) -> None:
    name = ask(coordinator, broker)
    entries = cast("list[tuple[str, dict[Any, Any]]]", redis_client.xrange(keys.records))
    record_all(recorder)
    before, counts = reader.question(name), reader.counts()
    for _, fields in entries:
        redis_client.xadd(keys.records, fields)
    assert record_all(recorder) > 0
    after = reader.question(name)
    assert before is not None
    assert after is not None
    assert reader.counts() == counts
    assert {**before.workflow, "recorded_at": 0} == {**after.workflow, "recorded_at": 0}
    assert before.requests == after.requests


def test_a_beginning_that_comes_late_does_not_undo_the_end(
    coordinator: Coordinator,
    broker: MemoryBroker,
    recorder: Recorder,
    reader: StoreReader,
    redis_client: redis.Redis,
    keys: Keys,
) -> None:
    name = ask(coordinator, broker)
    record_all(recorder)
    redis_client.delete(keys.workflow(name))
    late: dict[Any, Any] = {"w": name, "k": "begin", "s": "running", "t": time.time()}
    redis_client.xadd(keys.records, late)
    record_all(recorder)
    found = reader.question(name)
    assert found is not None
    assert (found.workflow["status"], found.workflow["complete"]) == ("answered", True)


def test_what_redis_forgot_is_stored_as_far_as_it_is_known(
    coordinator: Coordinator,
    broker: MemoryBroker,
    recorder: Recorder,
    reader: StoreReader,
    redis_client: redis.Redis,
    keys: Keys,
) -> None:
    name = ask(coordinator, broker)
    for key in (keys.workflow(name), keys.nodes(name), keys.trace(name)):
        redis_client.delete(key)
    record_all(recorder)
    found = reader.question(name)
    assert found is not None
    assert (found.workflow["status"], found.workflow["complete"]) == ("answered", False)
    assert found.workflow["finished_at"] is not None


def test_what_cannot_be_understood_is_set_aside_and_blocks_nobody(
    coordinator: Coordinator,
    broker: MemoryBroker,
    recorder: Recorder,
    reader: StoreReader,
    redis_client: redis.Redis,
    keys: Keys,
) -> None:
    names = [ask(coordinator, broker) for _ in range(3)]
    submission = redis_client.hget(keys.workflow(names[1]), "submission")
    redis_client.hset(keys.workflow(names[1]), "submission", "{")
    record_all(recorder)
    stream = RecordStream(redis_client, keys)
    assert [reader.question(name) is not None for name in names] == [True, False, True]
    (aside,) = stream.aside()
    assert aside.workflow_id == names[1]
    assert "JSONDecodeError" in aside.reason
    assert stream.backlog().waiting == 0
    assert stream.backlog().aside == 1
    redis_client.hset(keys.workflow(names[1]), "submission", submission)
    assert stream.try_again() == 1
    record_all(recorder)
    assert reader.question(names[1]) is not None
    assert stream.backlog().aside == 0


def test_a_value_that_the_store_refuses_is_set_aside_and_blocks_nobody(
    coordinator: Coordinator,
    broker: MemoryBroker,
    recorder: Recorder,
    reader: StoreReader,
    redis_client: redis.Redis,
    keys: Keys,
) -> None:
    names = [ask(coordinator, broker) for _ in range(5)]
    submission = json.loads(str(redis_client.hget(keys.workflow(names[3]), "submission")))
    submission["database"] = {"not": {"a": ["text"]}}
    redis_client.hset(keys.workflow(names[3]), "submission", json.dumps(submission))
    record_all(recorder)
    assert [reader.question(name) is not None for name in names] == [True] * 3 + [False, True]
    (aside,) = RecordStream(redis_client, keys).aside()
    assert aside.workflow_id == names[3]
    assert "ProgrammingError" in aside.reason
    assert RecordStream(redis_client, keys).backlog().waiting == 0


def test_texts_that_no_database_holds_are_stored_mended(
    coordinator: Coordinator, broker: MemoryBroker, recorder: Recorder, reader: StoreReader
) -> None:
    name = ask(coordinator, broker, note="a\0b\ud800c", number=float(2**70))
    record_all(recorder)
    found = reader.question(name)
    assert found is not None
    assert found.workflow["options"]["note"] == "a�b?c"


def test_names_of_recorders_that_are_gone_are_forgotten_unless_they_hold_something(
    coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
) -> None:
    ask(coordinator, broker)
    holding, gone, present = (RecordStream(redis_client, keys, name) for name in "hgp")
    holding.join()
    assert len(holding.take(1, 0.1)) == 1
    gone.done(gone.held(1) or gone.take(1, 0.1))
    present.held(1)
    present.join()
    assert _names(redis_client, keys) == {"h", "g", "p"}
    time.sleep(0.05)
    present.join(gone_ms=10)
    assert _names(redis_client, keys) == {"h", "p"}
    assert len(holding.held(5)) == 1


def _names(client: redis.Redis, keys: Keys) -> set[str]:
    consumers: Any = client.xinfo_consumers(keys.records, GROUP)
    return {each["name"] for each in consumers}


def test_the_age_of_what_waits_is_by_the_clock_of_redis(
    redis_client: redis.Redis, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_client.xadd(keys.records, {"w": "q", "k": "end", "s": "failed", "t": "1"})
    here = time.time()
    monkeypatch.setattr(time, "time", lambda: here + 3600.0)
    assert RecordStream(redis_client, keys).backlog().oldest_seconds < 600


def test_more_than_may_wait_is_dropped_oldest_first_and_counted(
    redis_client: redis.Redis, keys: Keys, store_settings: Settings, broker: MemoryBroker
) -> None:
    small = store_settings.store.model_copy(update={"backlog_entries": 4})
    settings = store_settings.model_copy(update={"store": small})
    coordinator = Coordinator(redis_client, keys, settings, {"dag": Dag()}, broker)
    names = [ask(coordinator, broker) for _ in range(4)]
    backlog = RecordStream(redis_client, keys).backlog()
    assert (backlog.waiting, backlog.dropped, backlog.loses) == (4, 4, True)
    assert backlog.dropped_seconds is not None
    assert 0 <= backlog.dropped_seconds < 60
    counted = CountsReader(redis_client, settings).read().store
    assert replace(counted, oldest_seconds=0.0, dropped_seconds=0.0) == Backlog(4, 0.0, 4, 0, 0.0)
    entries = cast("list[tuple[str, dict[str, str]]]", redis_client.xrange(keys.records))
    waiting = {fields["w"] for _, fields in entries}
    assert waiting == set(names[2:])


def test_nothing_is_recorded_where_that_is_switched_off(
    redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
) -> None:
    off = settings.model_copy(
        update={"store": settings.store.model_copy(update={"enabled": False})}
    )
    ask(Coordinator(redis_client, keys, off, {"dag": Dag()}, broker), broker)
    assert not redis_client.exists(keys.records)


def test_a_recorder_finishes_what_it_held_before_its_restart(
    coordinator: Coordinator,
    broker: MemoryBroker,
    make_recorder: Make,
    reader: StoreReader,
    redis_client: redis.Redis,
    keys: Keys,
) -> None:
    name = ask(coordinator, broker)
    stream = RecordStream(redis_client, keys, "r1")
    stream.join()
    assert len(stream.take(10, 0.1)) == 2
    assert redis_client.xpending(keys.records, GROUP)["pending"] == 2
    record_all(make_recorder("r1"))
    assert reader.question(name) is not None
    assert redis_client.xlen(keys.records) == 0


def test_another_recorder_takes_over_what_a_dead_one_held(
    coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
) -> None:
    ask(coordinator, broker)
    dead, other = (RecordStream(redis_client, keys, name) for name in ("r1", "r2"))
    dead.join()
    taken = dead.take(10, 0.1)
    assert other.take_over(10) == []
    assert other.take_over(10, silent_ms=0) == taken
    other.done(taken)
    assert other.backlog().waiting == 0


def test_entries_dropped_while_they_were_held_are_forgotten(
    coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
) -> None:
    ask(coordinator, broker)
    stream = RecordStream(redis_client, keys, "r1")
    stream.join()
    assert stream.take(10, 0.1)
    redis_client.xtrim(keys.records, 0)
    assert stream.held(10) == []
    assert redis_client.xpending(keys.records, GROUP)["pending"] == 0


def test_entries_dropped_while_a_dead_recorder_held_them_are_forgotten(
    coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
) -> None:
    ask(coordinator, broker)
    dead, other = (RecordStream(redis_client, keys, name) for name in ("r1", "r2"))
    dead.join()
    assert dead.take(10, 0.1)
    redis_client.xtrim(keys.records, 0)
    assert other.take_over(10, silent_ms=0) == []
    assert other.held(10) == []
    assert redis_client.xpending(keys.records, GROUP)["pending"] == 0
