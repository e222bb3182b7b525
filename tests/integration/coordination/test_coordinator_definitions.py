"""Workflow definitions that raise, refuse or end at once."""

from __future__ import annotations

import pytest
import redis

from hexgen_celery.coordination import Coordinator
from hexgen_celery.errors import InvalidSubmission
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.definition import (
    Answer,
    Expansion,
    Failure,
    NodeState,
    Submission,
    WorkflowStatus,
    WorkflowView,
)
from tests.integration.coordination.support import (
    Leftovers,
    MemoryBroker,
    PassTime,
    Scripted,
    llm_spec,
    make_submission,
    run_all,
)


class TestDefinitions:
    def scripted(
        self,
        redis_client: redis.Redis,
        keys: Keys,
        settings: Settings,
        broker: MemoryBroker,
        definition: Scripted,
    ) -> Coordinator:
        return Coordinator(redis_client, keys, settings, {"scripted": definition}, broker)

    def test_a_definition_that_raises_fails_its_question(
        self, redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
    ) -> None:
        def broken(view: WorkflowView, node: NodeState) -> Expansion:
            raise RuntimeError("a bug")

        definition = Scripted(lambda _: Expansion(add=(llm_spec("a"),)), broken)
        coordinator = self.scripted(redis_client, keys, settings, broker, definition)
        submission = make_submission("scripted")
        coordinator.start(submission)
        run_all(coordinator, broker)
        result = broker.result(submission.workflow_id)
        assert result.status is WorkflowStatus.FAILED
        assert "RuntimeError: a bug" in result.body["cause"]

    def test_a_best_effort_that_raises_means_there_is_none(
        self,
        redis_client: redis.Redis,
        keys: Keys,
        settings: Settings,
        broker: MemoryBroker,
        pass_time: PassTime,
    ) -> None:
        def broken(view: WorkflowView) -> Answer | None:
            raise RuntimeError("a bug")

        definition = Scripted(
            lambda _: Expansion(add=(llm_spec("a"),)), lambda _v, _n: Expansion(), broken
        )
        coordinator = self.scripted(redis_client, keys, settings, broker, definition)
        submission = make_submission("scripted")
        coordinator.start(submission)
        pass_time(601)
        coordinator.tick()
        assert broker.result(submission.workflow_id).status is WorkflowStatus.EXPIRED

    @pytest.mark.parametrize(
        ("outcome", "status"),
        [
            (Answer(sql="SELECT 1"), WorkflowStatus.ANSWERED),
            (Failure("s", "c", "SELECT 2"), WorkflowStatus.FAILED),
        ],
    )
    def test_a_question_may_end_as_it_begins(
        self,
        redis_client: redis.Redis,
        keys: Keys,
        settings: Settings,
        broker: MemoryBroker,
        outcome: Answer | Failure,
        status: WorkflowStatus,
        leftovers: Leftovers,
    ) -> None:
        definition = Scripted(lambda _: Expansion(outcome=outcome), lambda _v, _n: Expansion())
        coordinator = self.scripted(redis_client, keys, settings, broker, definition)
        submission = make_submission("scripted")
        coordinator.start(submission)
        assert broker.result(submission.workflow_id).status is status
        assert leftovers() == {}

    def test_a_definition_that_cannot_begin_fails_its_question(
        self, redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
    ) -> None:
        definition = Scripted(
            lambda _: Expansion(add=(llm_spec("a/b"),)), lambda _v, _n: Expansion()
        )
        coordinator = self.scripted(redis_client, keys, settings, broker, definition)
        submission = make_submission("scripted")
        coordinator.start(submission)
        assert "a/b" in broker.result(submission.workflow_id).body["cause"]

    def test_a_refused_submission_leaves_nothing(
        self, redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
    ) -> None:
        def refuse(submission: Submission) -> Expansion:
            raise InvalidSubmission("no", field="options")

        definition = Scripted(refuse, lambda _v, _n: Expansion())
        coordinator = self.scripted(redis_client, keys, settings, broker, definition)
        with pytest.raises(InvalidSubmission):
            coordinator.start(make_submission("scripted"))
        with pytest.raises(InvalidSubmission, match="unknown workflow 'other'"):
            coordinator.start(make_submission("other"))
        assert redis_client.keys(f"*{keys.prefix}*") == []
