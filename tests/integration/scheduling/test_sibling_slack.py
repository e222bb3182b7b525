"""Requests of one stage leave each other slack, whichever processes place them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from hexgen_celery.keys import Keys
from hexgen_celery.references import RequestRef
from hexgen_celery.settings import Settings
from tests.integration.coordination.support import make_submission
from tests.integration.scheduling.live_world import RESULT, LiveWorld, instance

pytestmark = pytest.mark.integration

# `a` and `b` are of one stage; `b` becomes ready when the statement `x` is done.
LATER: dict[str, list[str]] = {"a": [], "x": [], "b": ["x"]}


@pytest.fixture
def elsewhere(redis_client: redis.Redis, keys: Keys, settings: Settings) -> Iterator[LiveWorld]:
    """Another process of the same deployment."""
    live = LiveWorld(redis_client, keys, settings)
    yield live
    live.close()


def _begin(world: LiveWorld) -> str:
    submission = make_submission(nodes=LATER)
    world.coordinator.start(submission)
    return submission.workflow_id


def _finish_statement(world: LiveWorld, question: str) -> None:
    ref = RequestRef(question, "x", 1)
    assert world.coordinator.claim(ref, worker="w", queue="sql") is not None
    world.coordinator.complete(ref, {**RESULT})


def _slack_of(world: LiveWorld, question: str, node_id: str) -> float:
    (sent,) = [event for event in world.sent(question) if event["node"] == node_id]
    return float(sent["slack"])


def test_a_request_placed_elsewhere_leaves_slack(world: LiveWorld, elsewhere: LiveWorld) -> None:
    world.directory.announce(instance("a1", "a6000"))
    # So much prefill is ahead that what is placed there takes minutes.
    world.client.hset(world.keys.load, "gpu.a6000.x.a1:waiting", "1")
    world.client.hset(world.keys.load, "gpu.a6000.x.a1:prefill_tokens", "1000000")
    question = _begin(world)
    assert _slack_of(world, question, "a") == 0.0
    _finish_statement(elsewhere, question)
    record = world.coordinator.record(question)
    assert record.nodes["a"].record["expected_end"] > record.nodes["a"].record["queued_at"]
    assert _slack_of(world, question, "b") > 0.0


def test_one_that_failed_for_good_leaves_none(world: LiveWorld, elsewhere: LiveWorld) -> None:
    world.directory.announce(instance("a1", "a6000"))
    submission = make_submission(nodes=LATER, tolerant=True)
    world.coordinator.start(submission)
    question = submission.workflow_id
    ref = RequestRef(question, "a", 1)
    assert world.coordinator.claim(ref, worker="w", instance="a1", queue="q") is not None
    world.coordinator.fail(ref, {"code": "model_refused", "message": "no"}, retryable=False)
    _finish_statement(elsewhere, question)
    assert _slack_of(world, question, "b") == 0.0


def test_another_attempt_does_not_wait_for_the_end_of_the_last(
    world: LiveWorld, elsewhere: LiveWorld
) -> None:
    world.directory.announce(instance("a1", "a6000"))
    question = world.ask()
    ref = RequestRef(question, "a", 1)
    assert elsewhere.coordinator.claim(ref, worker="w", instance="a1", queue="q") is not None
    elsewhere.coordinator.fail(ref, {"code": "model_unavailable", "message": "x"}, retryable=True)
    first, second = world.sent(question)
    assert (first["slack"], second["slack"]) == (0.0, 0.0)
    assert second["attempt"] == 2
