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
from tests.integration.workers.local_workers import LocalWorkers, pool_of

pytestmark = pytest.mark.integration

PATIENCE = 60.0
FAST = {"lease_seconds": 3.0}


@pytest.fixture
def llm() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server


@pytest.fixture
def pooled(llm: FakeLlm, settings: Settings) -> Settings:
    """One pool with one instance, and leases short enough to wait for."""
    return settings.model_copy(
        update={
            "pools": (pool_of(llm.url),),
            "coordinator": settings.coordinator.model_copy(update=FAST),
            "workers": settings.workers.model_copy(update={"shutdown_grace_seconds": 0.5}),
        }
    )


@pytest.fixture
def workers(pooled: Settings, tmp_path: Path) -> Iterator[LocalWorkers]:
    with LocalWorkers(pooled, tmp_path) as running:
        yield running.start()


def _ledger(settings: Settings) -> LedgerView:
    with connect(settings) as client:
        return Ledger(client, Keys(settings.broker.prefix)).read()


def _wait_idle(settings: Settings) -> None:
    until = time.monotonic() + PATIENCE
    while _ledger(settings) != LedgerView({}, {}):
        assert time.monotonic() < until, _ledger(settings)
        time.sleep(0.05)


def test_a_question_is_answered_and_leaves_no_load(workers: LocalWorkers, llm: FakeLlm) -> None:
    result = workers.chat("hello there").get(timeout=PATIENCE)
    assert result["status"] == "answered"
    assert result["text"] == "hello there"
    assert result["deadline_met"] is True
    (stage,) = result["stages"]
    assert stage["stage"] == "chat"
    assert stage["queue"] == "gpu.a100.x"
    assert stage["instance"] == "x1"
    assert len(llm.requests) == 1
    assert llm.requests[0]["model"] == "fake-model"
    _wait_idle(workers.settings)


def test_many_questions_are_in_flight_at_once(workers: LocalWorkers, llm: FakeLlm) -> None:
    llm.holding = True
    pending = [workers.chat(f"question {number}") for number in range(24)]
    llm.wait_open(16)
    llm.holding = False
    answers = [waiting.get(timeout=PATIENCE)["text"] for waiting in pending]
    assert answers == [f"question {number}" for number in range(24)]
    assert llm.most_open == 16, "a worker takes as many requests as its pool says, and no more"


def test_a_revoked_question_stops_within_a_second(workers: LocalWorkers, llm: FakeLlm) -> None:
    llm.holding = True
    pending = workers.chat("never mind")
    llm.wait_open(1)
    pending.revoke(terminate=True)
    revoked_at = time.monotonic()
    with pytest.raises(TaskRevokedError):
        pending.get(timeout=PATIENCE)
    llm.wait_open(0, seconds=5.0)
    assert llm.broken_off[0] - revoked_at < 1.0
    assert pending.state == "REVOKED"
    _wait_idle(workers.settings)


def test_a_question_whose_worker_dies_is_answered_by_another_attempt(
    workers: LocalWorkers, llm: FakeLlm
) -> None:
    llm.holding = True
    pending = workers.chat("survive")
    llm.wait_open(1)
    workers.kill("llm-x1")
    llm.wait_open(0)
    llm.holding = False
    workers.llm("x1")
    result = pending.get(timeout=PATIENCE)
    assert result["text"] == "survive"
    assert result["stages"][0]["attempt"] == 2


def test_a_stopping_worker_finishes_what_it_can_and_hands_back_the_rest(
    workers: LocalWorkers, llm: FakeLlm
) -> None:
    llm.holding = True
    pending = [workers.chat(f"held {number}") for number in range(4)]
    llm.wait_open(4)
    workers.processes["llm-x1"].send_signal(signal.SIGTERM)
    llm.wait_open(0)
    llm.holding = False
    assert workers.processes["llm-x1"].wait(PATIENCE) == 0
    assert "Traceback" not in workers.log("llm-x1")
    workers.llm("x1")
    assert [p.get(timeout=PATIENCE)["text"] for p in pending] == [f"held {n}" for n in range(4)]


def test_a_worker_withdraws_its_instance_when_it_ends(workers: LocalWorkers) -> None:
    with connect(workers.settings) as client:
        directory = InstanceDirectory(client, Keys(workers.settings.broker.prefix))
        now, (record,) = directory.snapshot()
        assert record.alive(now, 10.0)
        assert record.worker.startswith("llm-x1@")
        workers.stop("llm-x1")
        assert directory.snapshot()[1] == []


def test_failing_servers_fail_the_question_after_all_attempts(
    workers: LocalWorkers, llm: FakeLlm
) -> None:
    llm.status = 400
    pending = workers.chat("refused")
    with pytest.raises(Exception, match="told to") as caught:
        pending.get(timeout=PATIENCE)
    (body,) = caught.value.args
    assert body["status"] == "failed"
    assert body["stage"] == "chat"
    assert body["workflow_id"] == pending.id
    assert pending.state == "FAILURE"


def test_an_expired_question_ends_and_its_stream_is_closed(
    workers: LocalWorkers, llm: FakeLlm
) -> None:
    llm.holding = True
    pending = workers.chat("too slow", slo_seconds=1.5)
    with pytest.raises(Exception, match="expired"):
        pending.get(timeout=PATIENCE)
    llm.wait_open(0, seconds=5.0)
    _wait_idle(workers.settings)


def test_no_worker_leaves_a_traceback_when_it_is_told_to_stop(workers: LocalWorkers) -> None:
    workers.chat("one").get(timeout=PATIENCE)
    workers.stop()
    for name, process in workers.processes.items():
        assert process.returncode == 0, name
        assert "Traceback" not in workers.log(name), name
