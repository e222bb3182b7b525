"""Messages that come twice, late or never, and attempts that fail."""

from __future__ import annotations

import pytest
import redis

from hexgen_celery.coordination import Coordinator, OutboxEntry, RequestRef
from hexgen_celery.errors import UnknownWorkflow
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.definition import (
    WorkflowStatus,
)
from tests.integration.coordination.support import (
    CHAIN,
    ERROR,
    QUEUE,
    Leftovers,
    MemoryBroker,
    attempt,
    cancels,
    heard,
    make_submission,
    named,
    run_all,
)


class TestDeliveries:
    def test_a_doubled_message_is_claimed_once(
        self, coordinator: Coordinator, one: OutboxEntry
    ) -> None:
        assert coordinator.claim(one.ref, worker="w1") is not None
        assert coordinator.claim(one.ref, worker="w2") is None
        coordinator.complete(one.ref, {})
        assert coordinator.claim(one.ref, worker="w2") is None

    def test_a_claim_carries_what_the_worker_needs(
        self, coordinator: Coordinator, one: OutboxEntry
    ) -> None:
        claimed = coordinator.claim(one.ref, worker="w1", instance="i", queue=QUEUE)
        assert claimed is not None
        assert (claimed.spec, claimed.submission) == (one.spec, one.submission)
        assert claimed.deadline == one.submission.deadline

    def test_messages_about_nothing_known_are_harmless(self, coordinator: Coordinator) -> None:
        ghost = RequestRef("ghost", "a", 1)
        assert coordinator.claim(ghost, worker="w") is None
        coordinator.complete(ghost, {})
        coordinator.fail(ghost, ERROR, retryable=True)
        coordinator.first_token(ghost)
        assert coordinator.renew("w", [ghost]) == [ghost]

    def test_a_second_completion_changes_nothing(
        self, coordinator: Coordinator, broker: MemoryBroker, one: OutboxEntry
    ) -> None:
        coordinator.claim(one.ref, worker="w")
        coordinator.complete(one.ref, {"text": "first"})
        coordinator.complete(one.ref, {"text": "second"})
        assert named(broker.messages) == ["b"]
        record = coordinator.record(one.ref.workflow_id)
        assert record.nodes["a"].state().result == {"text": "first"}

    def test_an_ask_that_is_delivered_again_resumes(
        self, coordinator: Coordinator, broker: MemoryBroker
    ) -> None:
        submission = make_submission(nodes=CHAIN)
        coordinator.start(submission)
        coordinator.start(submission)
        assert named(broker.messages) == ["a"]
        run_all(coordinator, broker)
        coordinator.start(submission)
        assert broker.messages == []
        assert len(broker.results[submission.workflow_id]) == 1


class TestAttempts:
    def test_a_retryable_failure_gets_a_new_attempt(
        self, coordinator: Coordinator, broker: MemoryBroker, one: OutboxEntry
    ) -> None:
        coordinator.claim(one.ref, worker="w")
        coordinator.fail(one.ref, ERROR, retryable=True)
        again = broker.take()
        assert again.ref == attempt(one.ref, 2)
        assert coordinator.claim(one.ref, worker="w") is None
        assert coordinator.claim(again.ref, worker="w") is not None

    def test_attempts_run_out(
        self, coordinator: Coordinator, broker: MemoryBroker, one: OutboxEntry, settings: Settings
    ) -> None:
        broker.messages.append(one)
        for _ in range(settings.coordinator.max_attempts):
            ref = broker.take().ref
            assert coordinator.claim(ref, worker="w")
            coordinator.fail(ref, ERROR, retryable=True)
        assert broker.messages == []
        result = broker.result(one.ref.workflow_id)
        assert result.status is WorkflowStatus.FAILED
        assert result.body["stage"] == "candidate_generation"
        assert result.body["cause"] == "connection refused"
        assert result.body["stages"][0]["error"] == ERROR

    def test_what_is_handed_back_gets_another_attempt_however_many_it_had(
        self, coordinator: Coordinator, broker: MemoryBroker, one: OutboxEntry, settings: Settings
    ) -> None:
        broker.messages.append(one)
        for number in range(1, settings.coordinator.max_attempts + 3):
            ref = broker.take().ref
            assert ref.attempt == number
            assert coordinator.claim(ref, worker=f"w{number}")
            coordinator.hand_back(ref, ERROR)
            coordinator.hand_back(ref, ERROR)
        run_all(coordinator, broker)
        assert broker.result(one.ref.workflow_id).status is WorkflowStatus.ANSWERED

    def test_a_failure_that_no_retry_can_mend_ends_the_node_at_once(
        self, coordinator: Coordinator, broker: MemoryBroker, one: OutboxEntry
    ) -> None:
        coordinator.claim(one.ref, worker="w")
        coordinator.fail(one.ref, ERROR, retryable=False)
        assert broker.result(one.ref.workflow_id).status is WorkflowStatus.FAILED

    def test_the_failure_of_an_old_attempt_is_ignored(
        self, coordinator: Coordinator, broker: MemoryBroker, one: OutboxEntry
    ) -> None:
        coordinator.claim(one.ref, worker="w")
        coordinator.fail(one.ref, ERROR, retryable=True)
        coordinator.fail(one.ref, ERROR, retryable=True)
        coordinator.fail(one.ref, ERROR, retryable=False)
        assert [entry.ref.attempt for entry in broker.messages] == [2]

    def test_the_first_completion_wins_even_from_an_old_attempt(
        self,
        coordinator: Coordinator,
        broker: MemoryBroker,
        one: OutboxEntry,
        redis_client: redis.Redis,
        keys: Keys,
        leftovers: Leftovers,
    ) -> None:
        coordinator.claim(one.ref, worker="slow")
        coordinator.fail(one.ref, ERROR, retryable=True)
        second = broker.take()
        coordinator.claim(second.ref, worker="fast", queue=QUEUE)
        channel = cancels(redis_client, keys)
        coordinator.complete(one.ref, {"text": "slow but first"})
        assert heard(channel) == [f"{one.ref.workflow_id}/a"]
        assert coordinator.renew("fast", [second.ref]) == [second.ref]
        coordinator.complete(second.ref, {"text": "late"})
        state = coordinator.record(one.ref.workflow_id).nodes["a"].state()
        assert (state.attempt, state.result) == (1, {"text": "slow but first"})
        run_all(coordinator, broker)
        assert leftovers() == {}


def test_an_unknown_question_has_neither_status_nor_trace(coordinator: Coordinator) -> None:
    with pytest.raises(UnknownWorkflow):
        coordinator.status("ghost")
    with pytest.raises(UnknownWorkflow):
        coordinator.trace("ghost")
