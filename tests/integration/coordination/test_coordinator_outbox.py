"""What could not be sent, or was sent and lost."""

from __future__ import annotations

import redis

from hexgen_celery.coordination import Coordinator, OutboxEntry
from hexgen_celery.eligibility import NoPool
from hexgen_celery.keys import Keys
from hexgen_celery.scripts import Scripts
from hexgen_celery.settings import Settings
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
    make_submission,
    run_all,
)


class _Unplaced(MemoryBroker):
    """A publisher without any instance to send to."""

    def publish(self, entry: OutboxEntry) -> str:
        raise NoPool("no instance is ready")


class TestOutbox:
    def test_what_could_not_be_sent_is_sent_later(
        self, coordinator: Coordinator, broker: MemoryBroker, pass_time: PassTime
    ) -> None:
        broker.down = True
        submission = make_submission(nodes=CHAIN)
        coordinator.start(submission)
        assert coordinator.tick().resent == 0
        broker.down = False
        pass_time(2)
        assert coordinator.tick().resent == 1
        assert broker.messages[0].resent
        run_all(coordinator, broker)
        assert broker.result(submission.workflow_id).status is WorkflowStatus.ANSWERED

    def test_why_nobody_could_take_it_is_told_when_its_question_expires(
        self, redis_client: redis.Redis, keys: Keys, settings: Settings, pass_time: PassTime
    ) -> None:
        broker = _Unplaced()
        coordinator = Coordinator(redis_client, keys, settings, {"dag": Dag()}, broker)
        submission = make_submission(slo=60.0, nodes=CHAIN)
        coordinator.start(submission)
        waiting = coordinator.status(submission.workflow_id)["nodes"][0]
        assert waiting["error"]["code"] == NoPool.code
        pass_time(61)
        assert coordinator.tick().expired == 1
        result = broker.result(submission.workflow_id)
        assert result.status is WorkflowStatus.EXPIRED
        assert result.body["cause"] == (
            "the deadline of 60 s passed; the last request error was: no instance is ready"
        )

    def test_an_attempt_that_runs_keeps_nothing_of_an_earlier_refusal(
        self, coordinator: Coordinator, one: OutboxEntry, redis_client: redis.Redis, keys: Keys
    ) -> None:
        coordinator.claim(one.ref, worker="w")
        scripts = Scripts(redis_client, keys, Settings())
        named = {"node": one.ref.node_id, "attempt": one.ref.attempt}
        assert not scripts.unsent(one.ref.workflow_id, named, "{}")

    def test_a_result_that_could_not_be_stored_is_stored_later(
        self,
        coordinator: Coordinator,
        broker: MemoryBroker,
        pass_time: PassTime,
        leftovers: Leftovers,
    ) -> None:
        submission = make_submission(nodes={"a": []})
        coordinator.start(submission)
        message = broker.take()
        coordinator.claim(message.ref, worker="w")
        broker.down = True
        coordinator.complete(message.ref, {})
        assert broker.results == {}
        broker.down = False
        pass_time(2)
        assert coordinator.tick().delivered == 1
        assert broker.result(submission.workflow_id).status is WorkflowStatus.ANSWERED
        assert leftovers() == {}

    def test_a_confirmed_message_is_not_sent_again_soon(
        self, coordinator: Coordinator, one: OutboxEntry, pass_time: PassTime
    ) -> None:
        pass_time(20)
        assert coordinator.tick().resent == 0

    def test_a_message_that_its_queue_lost_is_sent_again_with_growing_patience(
        self, coordinator: Coordinator, broker: MemoryBroker, one: OutboxEntry, pass_time: PassTime
    ) -> None:
        pass_time(30)
        assert coordinator.tick().resent == 1
        assert broker.take().ref == one.ref
        pass_time(30)
        assert coordinator.tick().resent == 0
        pass_time(30)
        assert coordinator.tick().resent == 1

    def test_a_message_that_still_waits_in_its_queue_is_left_alone(
        self,
        redis_client: redis.Redis,
        keys: Keys,
        settings: Settings,
        broker: MemoryBroker,
        pass_time: PassTime,
    ) -> None:
        backlog = {QUEUE: 1}
        coordinator = Coordinator(
            redis_client, keys, settings, {"dag": Dag()}, broker, backlog=backlog.get
        )
        coordinator.start(make_submission(nodes=CHAIN))
        pass_time(30)
        assert coordinator.tick().resent == 0
        backlog[QUEUE] = 0
        assert coordinator.tick().resent == 0
        pass_time(30)
        assert coordinator.tick().resent == 1

    def test_a_claim_that_overtakes_the_confirmation_confirms(
        self, redis_client: redis.Redis, keys: Keys, settings: Settings, leftovers: Leftovers
    ) -> None:
        claimed = []

        class Eager(MemoryBroker):
            def publish(self, entry: OutboxEntry) -> str:
                claimed.append(coordinator.claim(entry.ref, worker="w", queue=QUEUE))
                return super().publish(entry)

        broker = Eager()
        coordinator = Coordinator(redis_client, keys, settings, {"dag": Dag()}, broker)
        submission = make_submission(nodes={"a": []})
        coordinator.start(submission)
        assert claimed[0] is not None
        assert coordinator.queues()[QUEUE].running == 1
        assert coordinator.queues()[QUEUE].waiting == 0
        coordinator.complete(claimed[0].ref, {})
        assert leftovers() == {}

    def test_one_broken_entry_does_not_keep_the_others(
        self,
        redis_client: redis.Redis,
        keys: Keys,
        settings: Settings,
        broker: MemoryBroker,
        coordinator: Coordinator,
        pass_time: PassTime,
    ) -> None:
        broker.down = True
        broken, healthy = make_submission(nodes=CHAIN), make_submission(nodes=CHAIN)
        coordinator.start(broken)
        coordinator.start(healthy)
        redis_client.hset(keys.nodes(broken.workflow_id), "a/spec", "no json")
        broker.down = False
        pass_time(2)
        assert coordinator.tick().resent == 1

    def test_what_names_a_forgotten_workflow_is_removed(
        self,
        coordinator: Coordinator,
        one: OutboxEntry,
        redis_client: redis.Redis,
        keys: Keys,
        pass_time: PassTime,
        leftovers: Leftovers,
    ) -> None:
        coordinator.tick()
        coordinator.claim(one.ref, worker="w")
        other = make_submission(nodes=CHAIN)
        coordinator.start(other)
        for workflow_id in (one.ref.workflow_id, other.workflow_id):
            redis_client.delete(keys.workflow(workflow_id), keys.nodes(workflow_id))
        pass_time(601)
        coordinator.tick()
        left = leftovers()
        left.pop("load")
        assert left == {}
