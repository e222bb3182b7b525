"""What the store says of a question that Redis lost while it ran, in both kinds of database."""

from __future__ import annotations

import time

import pytest
import redis
from sqlalchemy import Engine

from hexgen_celery.coordination import Coordinator
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from hexgen_celery.store.lost import GRACE_SECONDS, LostQuestions
from hexgen_celery.store.questions import stored_outcome
from hexgen_celery.store.reading import StoredQuestion, StoreReader
from hexgen_celery.store.recording import Recording
from hexgen_celery.store.stream import RecordStream
from tests.integration.coordination.support import MemoryBroker, make_submission, run_all
from workers.recorder import Recorder

pytestmark = pytest.mark.integration

SLO = 60.0


@pytest.fixture
def recorder(redis_client: redis.Redis, keys: Keys, store: Engine, settings: Settings) -> Recorder:
    stream = RecordStream(redis_client, keys, "r1")
    return Recorder(Recording(redis_client, keys, store, stream), stream, settings)


@pytest.fixture
def lost(redis_client: redis.Redis, keys: Keys, store: Engine) -> LostQuestions:
    return LostQuestions(redis_client, keys, store)


def begin(coordinator: Coordinator, recorder: Recorder) -> str:
    """A question that the store saw begin; its id."""
    submission = make_submission(slo=SLO, nodes={"a": []})
    coordinator.start(submission)
    recorder.step(wait_seconds=0.05)
    return submission.workflow_id


def stored(store: Engine, keys: Keys, name: str) -> StoredQuestion:
    found = StoreReader(store, keys.prefix).question(name)
    assert found is not None
    return found


def overdue() -> float:
    """A moment at which a question that begins now must have ended."""
    return time.time() + SLO + GRACE_SECONDS + 1.0


def test_a_lost_question_ends_as_lost_at_its_deadline(
    coordinator: Coordinator,
    recorder: Recorder,
    lost: LostQuestions,
    redis_client: redis.Redis,
    store: Engine,
    keys: Keys,
) -> None:
    name = begin(coordinator, recorder)
    redis_client.delete(keys.workflow(name), keys.nodes(name), keys.trace(name))
    assert lost.end(overdue()) == 1
    assert lost.end(overdue()) == 0
    found = stored(store, keys, name)
    row = found.workflow
    assert (row["status"], row["finished_at"]) == ("lost", row["deadline"])
    assert not row["deadline_met"]
    assert stored_outcome(found) is None, "nobody knows how it ended"
    assert found.events[-1]["status"] == "lost"


def test_what_runs_or_may_still_run_is_left_alone(
    coordinator: Coordinator,
    recorder: Recorder,
    lost: LostQuestions,
    redis_client: redis.Redis,
    store: Engine,
    keys: Keys,
) -> None:
    known, young = begin(coordinator, recorder), begin(coordinator, recorder)
    assert lost.end(overdue()) == 0, "Redis knows both"
    redis_client.delete(keys.workflow(young))
    assert lost.end(time.time() + SLO) == 0, "it may be asked again"
    statuses = {stored(store, keys, name).workflow["status"] for name in (known, young)}
    assert statuses == {"running"}


def test_an_end_that_comes_after_all_wins(
    coordinator: Coordinator,
    broker: MemoryBroker,
    recorder: Recorder,
    lost: LostQuestions,
    redis_client: redis.Redis,
    store: Engine,
    keys: Keys,
) -> None:
    name = begin(coordinator, recorder)
    away = f"{keys.workflow(name)}:away"
    redis_client.rename(keys.workflow(name), away)
    assert lost.end(overdue()) == 1
    redis_client.rename(away, keys.workflow(name))
    run_all(coordinator, broker, {"rows": [[1]]})
    recorder.step(wait_seconds=0.05)
    row = stored(store, keys, name).workflow
    assert (row["status"], row["complete"]) == ("answered", True)
