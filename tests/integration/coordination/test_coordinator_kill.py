"""A process that is killed between a transition and the sending of what follows."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from hexgen_celery.coordination import Coordinator
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.definition import WorkflowStatus
from tests.integration.coordination.support import (
    Leftovers,
    MemoryBroker,
    make_submission,
    run_all,
)

PROJECT = Path(__file__).resolve().parents[3]
VICTIM = """
import os, signal, sys
import redis
from hexgen_celery.coordination import Coordinator, RequestRef
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from tests.integration.coordination.support import Dag, MemoryBroker

class Killed(MemoryBroker):
    def publish(self, entry):
        os.kill(os.getpid(), signal.SIGKILL)

    def finish(self, terminal):
        os.kill(os.getpid(), signal.SIGKILL)

url, prefix, workflow_id, node_id = sys.argv[1:]
client = redis.Redis.from_url(url, decode_responses=True)
coordinator = Coordinator(client, Keys(prefix), Settings(), {"dag": Dag()}, Killed())
ref = RequestRef(workflow_id, node_id, 1)
assert coordinator.claim(ref, worker="victim")
coordinator.complete(ref, {"text": "done before dying"})
"""
PATIENCE_SECONDS = 30.0


def complete_and_die(redis_url: str, keys: Keys, workflow_id: str, node_id: str) -> None:
    """Complete the request in a process that dies before it can send anything."""
    arguments = [sys.executable, "-c", VICTIM, redis_url, keys.prefix, workflow_id, node_id]
    done = subprocess.run(arguments, cwd=PROJECT, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_kill_between_transition_and_send_costs_seconds_not_the_question(
    redis_url: str,
    keys: Keys,
    settings: Settings,
    coordinator: Coordinator,
    broker: MemoryBroker,
    leftovers: Leftovers,
) -> None:
    submission = make_submission(nodes={"a": [], "b": ["a"]})
    coordinator.start(submission)
    for node_id in ("a", "b"):
        assert broker.take().ref.node_id == node_id
        complete_and_die(redis_url, keys, submission.workflow_id, node_id)
        assert not broker.messages
        until = time.monotonic() + PATIENCE_SECONDS
        while not (broker.messages or broker.results) and time.monotonic() < until:
            coordinator.tick()
            time.sleep(settings.coordinator.tick_seconds)
    run_all(coordinator, broker)
    result = broker.result(submission.workflow_id)
    assert result.status is WorkflowStatus.ANSWERED
    assert result.body["done"] == ["a", "b"]
    assert leftovers() == {}


def test_the_default_settings_heal_within_five_seconds(settings: Settings) -> None:
    timers = settings.coordinator
    assert timers.resend_after_seconds + timers.tick_seconds <= 5.0
