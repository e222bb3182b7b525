"""Questions through real workers: asked with plain Celery, answered by a real HTTP server."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery.exceptions import TaskRevokedError

from hexgen_celery.instances import InstanceDirectory
from hexgen_celery.keys import Keys
from hexgen_celery.ledger import Ledger, LedgerView
from hexgen_celery.redis_client import connect
from hexgen_celery.settings import Settings
from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import (
    LocalWorkers,
    deployment_settings,
    pool_of,
)
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

PATIENCE = 60.0
PROMPT = 5.0


@pytest.fixture(scope="module")
def server() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server


@pytest.fixture
def llm(server: FakeLlm) -> FakeLlm:
    server.reset()
    return server


@pytest.fixture(scope="module")
def shared(
    server: FakeLlm, redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalWorkers]:
    """Workers for tests that leave them as they were."""
    directory = tmp_path_factory.mktemp("shared-workers")
    settings = deployment_settings(redis_server, "sharedworkers", directory, pool_of(server.url))
    with LocalWorkers(settings, directory) as running:
        yield running.start()


@pytest.fixture
def own(llm: FakeLlm, redis_server: EmbeddedRedis, tmp_path: Path) -> Iterator[LocalWorkers]:
    """Workers for one test, which may end them."""
    pool = pool_of(llm.url, name="own")
    settings = deployment_settings(redis_server, "own", tmp_path, pool)
    with LocalWorkers(settings, tmp_path) as running:
        yield running.start()


def _ledger(settings: Settings) -> LedgerView:
    with connect(settings) as client:
        return Ledger(client, Keys(settings.broker.prefix)).read()


def _wait_idle(settings: Settings) -> None:
    until = time.monotonic() + PATIENCE
    while _ledger(settings) != LedgerView({}, {}):
        assert time.monotonic() < until, _ledger(settings)
        time.sleep(0.05)


def test_a_question_is_answered_and_leaves_no_load(shared: LocalWorkers, llm: FakeLlm) -> None:
    result = shared.chat("hello there").get(timeout=PATIENCE)
    assert result["status"] == "answered"
    assert result["text"] == "hello there"
    assert result["deadline_met"] is True
    (stage,) = result["stages"]
    assert stage["stage"] == "chat"
    assert stage["queue"] == "gpu.a100.x.x1"
    assert stage["instance"] == "x1"
    assert len(llm.requests) == 1
    assert llm.requests[0]["model"] == "fake-model"
    _wait_idle(shared.settings)


def test_many_questions_are_in_flight_at_once(shared: LocalWorkers, llm: FakeLlm) -> None:
    llm.holding = True
    pending = [shared.chat(f"question {number}") for number in range(24)]
    llm.wait_open(16)
    llm.holding = False
    answers = [waiting.get(timeout=PATIENCE)["text"] for waiting in pending]
    assert answers == [f"question {number}" for number in range(24)]
    assert llm.most_open == 16, "a worker takes as many requests as its pool says, and no more"


def test_a_revoked_question_stops_at_once(shared: LocalWorkers, llm: FakeLlm) -> None:
    llm.holding = True
    pending = shared.chat("never mind")
    llm.wait_open(1)
    pending.revoke(terminate=True)
    revoked_at = time.monotonic()
    with pytest.raises(TaskRevokedError):
        pending.get(timeout=PATIENCE)
    llm.wait_open(0, seconds=5.0)
    assert llm.broken_off[0] - revoked_at < PROMPT
    assert pending.state == "REVOKED"
    _wait_idle(shared.settings)


def test_a_question_whose_worker_dies_is_answered_by_another_attempt(
    own: LocalWorkers, llm: FakeLlm
) -> None:
    llm.holding = True
    pending = own.chat("survive")
    llm.wait_open(1)
    own.kill("llm-own1")
    llm.wait_open(0)
    llm.holding = False
    own.llm("own1")
    result = pending.get(timeout=PATIENCE)
    assert result["text"] == "survive"
    assert result["stages"][0]["attempt"] == 2


def test_a_stopping_worker_finishes_what_it_can_and_hands_back_the_rest(
    own: LocalWorkers, llm: FakeLlm
) -> None:
    llm.holding = True
    pending = [own.chat(f"held {number}") for number in range(4)]
    llm.wait_open(4)
    own.processes["llm-own1"].send_signal(signal.SIGTERM)
    llm.wait_open(0)
    llm.holding = False
    assert own.processes["llm-own1"].wait(PATIENCE) == 0
    assert "Traceback" not in own.log("llm-own1")
    own.llm("own1")
    assert [p.get(timeout=PATIENCE)["text"] for p in pending] == [f"held {n}" for n in range(4)]


def test_a_worker_withdraws_its_instance_when_it_ends(own: LocalWorkers) -> None:
    with connect(own.settings) as client:
        directory = InstanceDirectory(client, Keys(own.settings.broker.prefix))
        now, (record,) = directory.snapshot()
        assert record.alive(now, 10.0)
        assert record.worker.startswith("llm-own1@")
        own.stop("llm-own1")
        assert directory.snapshot()[1] == []


def test_failing_servers_fail_the_question_after_all_attempts(
    shared: LocalWorkers, llm: FakeLlm
) -> None:
    llm.status = 400
    pending = shared.chat("refused")
    with pytest.raises(Exception, match="told to") as caught:
        pending.get(timeout=PATIENCE)
    (body,) = caught.value.args
    assert body["status"] == "failed"
    assert body["stage"] == "chat"
    assert body["workflow_id"] == pending.id
    assert pending.state == "FAILURE"


def test_an_expired_question_ends_and_its_stream_is_closed(
    shared: LocalWorkers, llm: FakeLlm
) -> None:
    llm.holding = True
    pending = shared.chat("too slow", slo_seconds=1.5)
    with pytest.raises(Exception, match="expired"):
        pending.get(timeout=PATIENCE)
    llm.wait_open(0, seconds=5.0)
    _wait_idle(shared.settings)


def test_no_worker_leaves_a_traceback_when_it_is_told_to_stop(own: LocalWorkers) -> None:
    own.chat("one").get(timeout=PATIENCE)
    own.stop()
    for name, process in own.processes.items():
        assert process.returncode == 0, name
        assert "Traceback" not in own.log(name), name
