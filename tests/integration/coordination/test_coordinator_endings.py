"""Questions that are cancelled, or reach their deadline."""

from __future__ import annotations

import redis

from hexgen_celery.coordination import Coordinator, OutboxEntry
from hexgen_celery.keys import Keys
from hexgen_celery.settings import DeadlineSettings, Settings
from hexgen_celery.workflows.definition import (
    WorkflowStatus,
)
from tests.integration.coordination.support import (
    CHAIN,
    QUEUE,
    Dag,
    Leftovers,
    MemoryBroker,
    PassTime,
    cancels,
    heard,
    make_submission,
    run_all,
)


class TestCancel:
    def test_a_cancelled_question_stops_everywhere(
        self,
        coordinator: Coordinator,
        broker: MemoryBroker,
        redis_client: redis.Redis,
        keys: Keys,
        leftovers: Leftovers,
    ) -> None:
        submission = make_submission(nodes={"a": [], "b": []})
        coordinator.start(submission)
        running, waiting = broker.take(), broker.take()
        coordinator.claim(running.ref, worker="w", instance="i", queue=QUEUE)
        channel = cancels(redis_client, keys)
        assert coordinator.cancel(submission.workflow_id, "by its user")
        assert heard(channel) == [submission.workflow_id]
        assert coordinator.renew("w", [running.ref]) == [running.ref]
        assert coordinator.claim(waiting.ref, worker="w") is None
        coordinator.complete(running.ref, {})
        result = broker.result(submission.workflow_id)
        assert result.status is WorkflowStatus.CANCELLED
        assert result.body["cause"] == "by its user"
        assert leftovers() == {}
        assert not coordinator.cancel(submission.workflow_id)

    def test_a_question_cancelled_before_it_begins_never_runs(
        self, coordinator: Coordinator, broker: MemoryBroker, leftovers: Leftovers
    ) -> None:
        submission = make_submission(nodes=CHAIN)
        assert not coordinator.cancel(submission.workflow_id)
        coordinator.start(submission)
        coordinator.start(submission)
        assert broker.messages == []
        assert broker.result(submission.workflow_id).status is WorkflowStatus.CANCELLED
        assert leftovers() == {}

    def test_a_dropped_node_is_stopped_while_the_question_goes_on(
        self,
        coordinator: Coordinator,
        broker: MemoryBroker,
        redis_client: redis.Redis,
        keys: Keys,
        leftovers: Leftovers,
    ) -> None:
        submission = make_submission(nodes={"a": [], "b": [], "c": ["a"]}, drops={"a": ["b"]})
        coordinator.start(submission)
        a, b = broker.take(), broker.take()
        coordinator.claim(a.ref, worker="w")
        coordinator.claim(b.ref, worker="w")
        channel = cancels(redis_client, keys)
        coordinator.complete(a.ref, {})
        assert heard(channel) == [f"{submission.workflow_id}/b"]
        assert coordinator.renew("w", [b.ref]) == [b.ref]
        coordinator.complete(b.ref, {})
        run_all(coordinator, broker)
        assert broker.result(submission.workflow_id).body["done"] == ["a", "c"]
        assert leftovers() == {}


class TestDeadline:
    def test_the_best_answer_so_far_is_returned(
        self,
        coordinator: Coordinator,
        broker: MemoryBroker,
        pass_time: PassTime,
        leftovers: Leftovers,
    ) -> None:
        submission = make_submission(nodes=CHAIN)
        coordinator.start(submission)
        first = broker.take()
        coordinator.claim(first.ref, worker="w")
        coordinator.complete(first.ref, {}, {"columns": ["n"], "rows": [[7]]})
        pass_time(601)
        assert coordinator.claim(broker.take().ref, worker="w") is None
        assert coordinator.tick().expired == 1
        result = broker.result(submission.workflow_id)
        assert result.status is WorkflowStatus.ANSWERED
        assert result.body["best_effort"] is True
        assert result.body["deadline_met"] is False
        assert result.body["rows"] == [[7]]
        assert leftovers() == {}

    def test_without_one_it_is_expired(
        self, coordinator: Coordinator, broker: MemoryBroker, one: OutboxEntry, pass_time: PassTime
    ) -> None:
        coordinator.claim(one.ref, worker="w")
        pass_time(601)
        coordinator.tick()
        result = broker.result(one.ref.workflow_id)
        assert result.status is WorkflowStatus.EXPIRED
        assert result.body["stage"] == "candidate_generation"
        assert "600 s" in result.body["cause"]

    def test_strict_policy_takes_no_best_effort(
        self,
        redis_client: redis.Redis,
        keys: Keys,
        settings: Settings,
        broker: MemoryBroker,
        pass_time: PassTime,
    ) -> None:
        strict = settings.model_copy(update={"deadline": DeadlineSettings(policy="strict")})
        coordinator = Coordinator(redis_client, keys, strict, {"dag": Dag()}, broker)
        submission = make_submission(nodes={"x": [], "b": ["x"]})
        coordinator.start(submission)
        first = broker.take()
        coordinator.claim(first.ref, worker="w")
        coordinator.complete(first.ref, {})
        pass_time(601)
        coordinator.tick()
        result = broker.result(submission.workflow_id)
        assert result.status is WorkflowStatus.EXPIRED
        assert result.body["last_sql"] == "SELECT 'x'"

    def test_a_question_submitted_too_long_ago_expires_at_once(
        self, coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
    ) -> None:
        submission = make_submission(nodes=CHAIN, slo=-1_000_000.0)
        coordinator.start(submission)
        assert coordinator.claim(broker.take().ref, worker="w") is None
        coordinator.tick()
        assert broker.result(submission.workflow_id).status is WorkflowStatus.EXPIRED
