"""Messages that come twice, late or never; workers and senders that die; deadlines and cancels."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from hexgen_celery.coordination import Coordinator, OutboxEntry, RequestRef
from hexgen_celery.errors import InvalidSubmission, UnknownWorkflow
from hexgen_celery.keys import Keys
from hexgen_celery.settings import DeadlineSettings, Settings
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
    QUEUE,
    Dag,
    InterruptedDag,
    MemoryBroker,
    Scripted,
    attempt,
    leftovers,
    let_pass,
    llm_spec,
    make_submission,
    named,
    run_all,
)

ERROR = {"code": "model_unavailable", "message": "connection refused", "hint": "start it"}
CHAIN: dict[str, list[str]] = {"a": [], "b": ["a"]}


@pytest.fixture
def one(coordinator: Coordinator, broker: MemoryBroker) -> OutboxEntry:
    """The message of the first of two requests."""
    coordinator.start(make_submission(nodes=CHAIN))
    return broker.take()


def cancels(client: redis.Redis, keys: Keys) -> Any:
    """A subscription to the cancel channel that is in place."""
    channel = client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
    channel.subscribe(keys.cancels)
    channel.get_message(timeout=1)
    return channel


def heard(channel: Any) -> list[str]:
    """The cancels heard so far."""
    found = []
    while (message := channel.get_message(timeout=0.2)) is not None:
        found.append(message["data"])
    return found


def cancel(coordinator: Coordinator, workflow_id: str) -> None:
    """What a user does."""
    assert coordinator.cancel(workflow_id)


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
        assert leftovers(redis_client, keys) == {}


class TestLeases:
    def test_a_dead_workers_request_gets_a_new_attempt(
        self,
        coordinator: Coordinator,
        broker: MemoryBroker,
        one: OutboxEntry,
        redis_client: redis.Redis,
        keys: Keys,
    ) -> None:
        coordinator.claim(one.ref, worker="dead")
        assert coordinator.tick().idle
        let_pass(redis_client, keys, 60)
        assert coordinator.tick().lost == 1
        assert broker.messages[0].ref == attempt(one.ref, 2)
        assert coordinator.renew("dead", [one.ref]) == [one.ref]

    def test_a_renewed_lease_holds(
        self, coordinator: Coordinator, one: OutboxEntry, redis_client: redis.Redis, keys: Keys
    ) -> None:
        coordinator.claim(one.ref, worker="w")
        let_pass(redis_client, keys, 14)
        assert coordinator.renew("w", [one.ref]) == []
        let_pass(redis_client, keys, 14)
        assert coordinator.tick().lost == 0

    def test_lost_attempts_count(
        self,
        coordinator: Coordinator,
        broker: MemoryBroker,
        one: OutboxEntry,
        redis_client: redis.Redis,
        keys: Keys,
    ) -> None:
        broker.messages.append(one)
        while broker.messages:
            coordinator.claim(broker.take().ref, worker="dead")
            let_pass(redis_client, keys, 20)
            coordinator.tick()
        result = broker.result(one.ref.workflow_id)
        assert result.body["stages"][0]["attempt"] == 3
        assert "lease" in result.body["cause"]

    def test_after_a_gap_without_sweeps_all_leases_are_extended_once(
        self,
        coordinator: Coordinator,
        one: OutboxEntry,
        redis_client: redis.Redis,
        keys: Keys,
    ) -> None:
        coordinator.claim(one.ref, worker="w")
        coordinator.tick()
        redis_client.decrby(keys.swept, 60_000)
        let_pass(redis_client, keys, 60)
        assert coordinator.tick().lost == 0
        let_pass(redis_client, keys, 16)
        assert coordinator.tick().lost == 1


class TestOutbox:
    def test_what_could_not_be_sent_is_sent_later(
        self, coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
    ) -> None:
        broker.down = True
        submission = make_submission(nodes=CHAIN)
        coordinator.start(submission)
        assert coordinator.tick().resent == 0
        broker.down = False
        let_pass(redis_client, keys, 2)
        assert coordinator.tick().resent == 1
        assert broker.messages[0].resent
        run_all(coordinator, broker)
        assert broker.result(submission.workflow_id).status is WorkflowStatus.ANSWERED

    def test_a_result_that_could_not_be_stored_is_stored_later(
        self, coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
    ) -> None:
        submission = make_submission(nodes={"a": []})
        coordinator.start(submission)
        message = broker.take()
        coordinator.claim(message.ref, worker="w")
        broker.down = True
        coordinator.complete(message.ref, {})
        assert broker.results == {}
        broker.down = False
        let_pass(redis_client, keys, 2)
        assert coordinator.tick().delivered == 1
        assert broker.result(submission.workflow_id).status is WorkflowStatus.ANSWERED
        assert leftovers(redis_client, keys) == {}

    def test_a_confirmed_message_is_not_sent_again_soon(
        self, coordinator: Coordinator, one: OutboxEntry, redis_client: redis.Redis, keys: Keys
    ) -> None:
        let_pass(redis_client, keys, 20)
        assert coordinator.tick().resent == 0

    def test_a_message_that_its_queue_lost_is_sent_again_with_growing_patience(
        self,
        coordinator: Coordinator,
        broker: MemoryBroker,
        one: OutboxEntry,
        redis_client: redis.Redis,
        keys: Keys,
    ) -> None:
        let_pass(redis_client, keys, 30)
        assert coordinator.tick().resent == 1
        assert broker.take().ref == one.ref
        let_pass(redis_client, keys, 30)
        assert coordinator.tick().resent == 0
        let_pass(redis_client, keys, 30)
        assert coordinator.tick().resent == 1

    def test_a_message_that_still_waits_in_its_queue_is_left_alone(
        self, redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
    ) -> None:
        backlog = {QUEUE: 1}
        coordinator = Coordinator(
            redis_client, keys, settings, {"dag": Dag()}, broker, backlog=backlog.get
        )
        coordinator.start(make_submission(nodes=CHAIN))
        let_pass(redis_client, keys, 30)
        assert coordinator.tick().resent == 0
        backlog[QUEUE] = 0
        assert coordinator.tick().resent == 0
        let_pass(redis_client, keys, 30)
        assert coordinator.tick().resent == 1

    def test_a_claim_that_overtakes_the_confirmation_confirms(
        self, redis_client: redis.Redis, keys: Keys, settings: Settings
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
        assert leftovers(redis_client, keys) == {}

    def test_one_broken_entry_does_not_keep_the_others(
        self,
        redis_client: redis.Redis,
        keys: Keys,
        settings: Settings,
        broker: MemoryBroker,
        coordinator: Coordinator,
    ) -> None:
        broker.down = True
        broken, healthy = make_submission(nodes=CHAIN), make_submission(nodes=CHAIN)
        coordinator.start(broken)
        coordinator.start(healthy)
        redis_client.hset(keys.nodes(broken.workflow_id), "a/spec", "no json")
        broker.down = False
        let_pass(redis_client, keys, 2)
        assert coordinator.tick().resent == 1

    def test_what_names_a_forgotten_workflow_is_removed(
        self,
        coordinator: Coordinator,
        one: OutboxEntry,
        redis_client: redis.Redis,
        keys: Keys,
    ) -> None:
        coordinator.claim(one.ref, worker="w")
        other = make_submission(nodes=CHAIN)
        coordinator.start(other)
        for workflow_id in (one.ref.workflow_id, other.workflow_id):
            redis_client.delete(keys.workflow(workflow_id), keys.nodes(workflow_id))
        let_pass(redis_client, keys, 601)
        coordinator.tick()
        left = leftovers(redis_client, keys)
        left.pop("load")
        assert left == {}


class TestCancel:
    def test_a_cancelled_question_stops_everywhere(
        self, coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
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
        assert leftovers(redis_client, keys) == {}
        assert not coordinator.cancel(submission.workflow_id)

    def test_a_question_cancelled_before_it_begins_never_runs(
        self, coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
    ) -> None:
        submission = make_submission(nodes=CHAIN)
        assert not coordinator.cancel(submission.workflow_id)
        coordinator.start(submission)
        coordinator.start(submission)
        assert broker.messages == []
        assert broker.result(submission.workflow_id).status is WorkflowStatus.CANCELLED
        assert leftovers(redis_client, keys) == {}

    def test_a_dropped_node_is_stopped_while_the_question_goes_on(
        self, coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
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
        assert leftovers(redis_client, keys) == {}


class TestDeadline:
    def test_the_best_answer_so_far_is_returned(
        self, coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
    ) -> None:
        submission = make_submission(nodes=CHAIN)
        coordinator.start(submission)
        first = broker.take()
        coordinator.claim(first.ref, worker="w")
        coordinator.complete(first.ref, {}, {"columns": ["n"], "rows": [[7]]})
        let_pass(redis_client, keys, 601)
        assert coordinator.claim(broker.take().ref, worker="w") is None
        assert coordinator.tick().expired == 1
        result = broker.result(submission.workflow_id)
        assert result.status is WorkflowStatus.ANSWERED
        assert result.body["best_effort"] is True
        assert result.body["deadline_met"] is False
        assert result.body["rows"] == [[7]]
        assert leftovers(redis_client, keys) == {}

    def test_without_one_it_is_expired(
        self,
        coordinator: Coordinator,
        broker: MemoryBroker,
        one: OutboxEntry,
        redis_client: redis.Redis,
        keys: Keys,
    ) -> None:
        coordinator.claim(one.ref, worker="w")
        let_pass(redis_client, keys, 601)
        coordinator.tick()
        result = broker.result(one.ref.workflow_id)
        assert result.status is WorkflowStatus.EXPIRED
        assert result.body["stage"] == "candidate_generation"
        assert "600 s" in result.body["cause"]

    def test_strict_policy_takes_no_best_effort(
        self, redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
    ) -> None:
        strict = settings.model_copy(update={"deadline": DeadlineSettings(policy="strict")})
        coordinator = Coordinator(redis_client, keys, strict, {"dag": Dag()}, broker)
        submission = make_submission(nodes={"x": [], "b": ["x"]})
        coordinator.start(submission)
        first = broker.take()
        coordinator.claim(first.ref, worker="w")
        coordinator.complete(first.ref, {})
        let_pass(redis_client, keys, 601)
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
        self, coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
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
        assert leftovers(redis_client, keys) == {}


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
        self, redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
    ) -> None:
        def broken(view: WorkflowView) -> Answer | None:
            raise RuntimeError("a bug")

        definition = Scripted(
            lambda _: Expansion(add=(llm_spec("a"),)), lambda _v, _n: Expansion(), broken
        )
        coordinator = self.scripted(redis_client, keys, settings, broker, definition)
        submission = make_submission("scripted")
        coordinator.start(submission)
        let_pass(redis_client, keys, 601)
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
    ) -> None:
        definition = Scripted(lambda _: Expansion(outcome=outcome), lambda _v, _n: Expansion())
        coordinator = self.scripted(redis_client, keys, settings, broker, definition)
        submission = make_submission("scripted")
        coordinator.start(submission)
        assert broker.result(submission.workflow_id).status is status
        assert leftovers(redis_client, keys) == {}

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


def test_an_unknown_question_has_neither_status_nor_trace(coordinator: Coordinator) -> None:
    with pytest.raises(UnknownWorkflow):
        coordinator.status("ghost")
    with pytest.raises(UnknownWorkflow):
        coordinator.trace("ghost")
