"""Two processes move one question at the same moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from hexgen_celery.coordination import Coordinator
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.definition import (
    WorkflowStatus,
)
from tests.integration.coordination.support import (
    CHAIN,
    InterruptedDag,
    Leftovers,
    MemoryBroker,
    cancel,
    make_submission,
    named,
    run_all,
)


class TestRaces:
    """Another process moves the question while this one plans its own transition."""

    @pytest.fixture
    def raced(
        self, redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
    ) -> tuple[Coordinator, InterruptedDag]:
        dag = InterruptedDag()
        return Coordinator(redis_client, keys, settings, {"dag": dag}, broker), dag

    def test_two_last_predecessors_end_at_once(
        self, raced: tuple[Coordinator, InterruptedDag], broker: MemoryBroker
    ) -> None:
        coordinator, dag = raced
        submission = make_submission(nodes={"a": [], "b": [], "c": ["a", "b"]})
        coordinator.start(submission)
        a, b = broker.take().ref, broker.take().ref
        coordinator.claim(a, worker="w")
        coordinator.claim(b, worker="w")
        dag.intruder = lambda: coordinator.complete(b, {})
        coordinator.complete(a, {})
        assert named(broker.messages) == ["c"]
        run_all(coordinator, broker)
        assert broker.result(submission.workflow_id).body["done"] == ["a", "b", "c"]

    def test_the_same_request_is_completed_twice_at_once(
        self, raced: tuple[Coordinator, InterruptedDag], broker: MemoryBroker
    ) -> None:
        coordinator, dag = raced
        submission = make_submission(nodes=CHAIN)
        coordinator.start(submission)
        ref = broker.take().ref
        coordinator.claim(ref, worker="w")
        dag.intruder = lambda: coordinator.complete(ref, {"text": "intruder"})
        coordinator.complete(ref, {"text": "planned first"})
        state = coordinator.record(submission.workflow_id).nodes["a"].state()
        assert state.result == {"text": "intruder"}
        assert named(broker.messages) == ["b"]

    def test_a_cancel_comes_between(
        self, raced: tuple[Coordinator, InterruptedDag], broker: MemoryBroker
    ) -> None:
        coordinator, dag = raced
        submission = make_submission(nodes=CHAIN)
        coordinator.start(submission)
        ref = broker.take().ref
        coordinator.claim(ref, worker="w")
        dag.intruder = lambda: cancel(coordinator, submission.workflow_id)
        coordinator.complete(ref, {})
        assert broker.result(submission.workflow_id).status is WorkflowStatus.CANCELLED
        assert broker.messages == []

    def test_many_threads_complete_the_parts_of_one_question(
        self, coordinator: Coordinator, broker: MemoryBroker, leftovers: Leftovers
    ) -> None:
        names = [f"n{number}" for number in range(16)]
        submission = make_submission(nodes={**{name: [] for name in names}, "last": names})
        coordinator.start(submission)
        refs = [broker.take().ref for _ in names]
        for ref in refs:
            coordinator.claim(ref, worker="w")
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda ref: coordinator.complete(ref, {}), refs))
        assert named(broker.messages) == ["last"]
        run_all(coordinator, broker)
        assert len(broker.result(submission.workflow_id).body["done"]) == 17
        assert leftovers() == {}
