"""What the coordinator leaves in Redis: ledger, prompt parts, trace, and for how long."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import pytest
import redis

from hexgen_celery.coordination import Coordinator, OutboxEntry, Placement, RequestRef
from hexgen_celery.keys import Keys
from hexgen_celery.ledger import Load
from hexgen_celery.parts import MissingPart, PartStore
from hexgen_celery.settings import BrokerSettings, Settings
from hexgen_celery.trace import TraceReader
from hexgen_celery.workflows.definition import (
    Answer,
    Expansion,
    NodeState,
    PartRef,
    Submission,
    WorkflowStatus,
    WorkflowView,
)
from tests.integration.coordination.support import (
    QUEUE,
    Dag,
    Leftovers,
    MemoryBroker,
    Scripted,
    llm_spec,
    make_submission,
    run_all,
)

TEMPLATE = PartRef("hash-of-template", 1000)
SCHEMA = PartRef("hash-of-schema", 500)
SYNTHETIC = PartRef("syn:template:1000", 1000)


class TestLedger:
    def test_a_request_is_counted_where_it_is(
        self, coordinator: Coordinator, broker: MemoryBroker
    ) -> None:
        coordinator.start(make_submission(nodes={"a": []}))
        waiting = Load(waiting=1, prefill_tokens=100, output_tokens=20, context_tokens=100)
        assert coordinator.queues() == {QUEUE: waiting}
        ref = broker.take().ref
        coordinator.claim(ref, worker="w", instance="i", queue=QUEUE)
        running = Load(running=1, prefill_tokens=100, output_tokens=20, context_tokens=100)
        assert coordinator.load().queue(QUEUE) == Load(running=1)
        assert coordinator.load().instance("i") == running
        coordinator.first_token(ref)
        coordinator.first_token(ref)
        decoding = Load(running=1, output_tokens=20, context_tokens=100)
        assert coordinator.load().instance("i") == decoding
        coordinator.complete(ref, {})
        assert coordinator.load().queues == {}
        assert coordinator.load().instances == {}

    def test_the_routers_estimates_replace_the_requests_own(
        self, redis_client: redis.Redis, keys: Keys, settings: Settings, leftovers: Leftovers
    ) -> None:
        class Estimating(MemoryBroker):
            def publish(self, entry: OutboxEntry) -> Any:
                super().publish(entry)
                reasons = {"score": 0.25, "other": math.inf, "third": math.nan}
                return Placement(QUEUE, 7, 8, 1_234_567, 987_654_321, reasons=reasons)

        broker = Estimating()
        coordinator = Coordinator(redis_client, keys, settings, {"dag": Dag()}, broker)
        submission = make_submission(nodes={"a": []})
        coordinator.start(submission)
        assert coordinator.queues()[QUEUE] == Load(1, 0, 7, 8, 1_234_567, 987_654_321, 100)
        sent = next(e for e in coordinator.trace(submission.workflow_id) if e["event"] == "sent")
        assert sent["score"] == 0.25
        assert not {"other", "third"} & set(sent)
        run_all(coordinator, broker)
        assert leftovers() == {}

    def test_a_claim_from_another_queue_moves_the_load(
        self, coordinator: Coordinator, broker: MemoryBroker
    ) -> None:
        coordinator.start(make_submission(nodes={"a": []}))
        coordinator.claim(broker.take().ref, worker="w", queue="gpu.l40s.other")
        assert set(coordinator.queues()) == {"gpu.l40s.other"}


class TestParts:
    @pytest.fixture
    def parted(
        self, redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
    ) -> Coordinator:
        """Two requests; the first shares a template, the second also a schema."""

        def begin(_submission: Submission) -> Expansion:
            spec = llm_spec("a", parts=(TEMPLATE, SYNTHETIC))
            return Expansion(add=(spec,), parts={TEMPLATE.hash: "be exact"})

        def advance(view: WorkflowView, node: NodeState) -> Expansion:
            if node.spec.id == "b":
                return Expansion(outcome=Answer())
            spec = llm_spec("b", parts=(TEMPLATE, SCHEMA))
            texts = {SCHEMA.hash: "CREATE TABLE straße (…)"}
            return Expansion(add=(spec,), parts={} if view.submission.evidence else texts)

        definitions = {"scripted": Scripted(begin, advance)}
        return Coordinator(redis_client, keys, settings, definitions, broker)

    def test_parts_are_stored_before_a_request_that_needs_them_is_sent(
        self, redis_client: redis.Redis, keys: Keys, parted: Coordinator, broker: MemoryBroker
    ) -> None:
        store = PartStore(redis_client, keys)
        parted.start(make_submission("scripted"))
        assert store.get([TEMPLATE.hash]) == ["be exact"]
        assert run_all(parted, broker) == 2
        assert store.get([SCHEMA.hash, TEMPLATE.hash, SCHEMA.hash]) == [
            "CREATE TABLE straße (…)",
            "be exact",
            "CREATE TABLE straße (…)",
        ]

    def test_a_part_outlives_the_longest_question_that_uses_it(
        self, redis_client: redis.Redis, keys: Keys, parted: Coordinator
    ) -> None:
        key = keys.part(TEMPLATE.hash)
        parted.start(make_submission("scripted", slo=100.0))
        short: int = redis_client.pttl(key)
        parted.start(make_submission("scripted", slo=10_000.0))
        long: int = redis_client.pttl(key)
        assert long - short == pytest.approx(9_900_000, abs=10_000)
        parted.start(make_submission("scripted", slo=100.0))
        assert redis_client.pttl(key) == pytest.approx(long, abs=10_000)

    def test_a_part_that_nobody_has_fails_the_question(
        self, parted: Coordinator, broker: MemoryBroker, leftovers: Leftovers
    ) -> None:
        submission = make_submission("scripted")
        submission = replace(submission, evidence="forget the schema")
        parted.start(submission)
        run_all(parted, broker)
        result = broker.result(submission.workflow_id)
        assert result.status is WorkflowStatus.FAILED
        assert SCHEMA.hash in result.body["cause"]
        assert leftovers() == {}

    def test_a_missing_part_is_named(self, redis_client: redis.Redis, keys: Keys) -> None:
        with pytest.raises(MissingPart, match="nowhere"):
            PartStore(redis_client, keys).get(["nowhere"])

    def test_the_cache_is_bounded_and_saves_the_round_trip(
        self, redis_client: redis.Redis, keys: Keys
    ) -> None:
        store = PartStore(redis_client, keys, cached=2)
        later = int(time.time() * 1000) + 60_000
        store.put({"p1": "one", "p2": "two", "p3": "\ud800"}, later)
        assert store.get(["p1", "p2"]) == ["one", "two"]
        assert store.get(["p3"]) == ["?"]
        redis_client.delete(*(keys.part(name) for name in ("p1", "p2", "p3")))
        assert store.get(["p2", "p3"]) == ["two", "?"]
        with pytest.raises(MissingPart):
            store.get(["p1"])


class TestLifetime:
    def test_a_running_question_outlives_its_deadline_and_an_ended_one_its_result(
        self, coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
    ) -> None:
        submission = make_submission(nodes={"a": [], "b": ["a"]})
        coordinator.start(submission)
        first = broker.take()
        coordinator.claim(first.ref, worker="w")
        coordinator.complete(first.ref, {}, {"rows": [[1]]})
        own = [
            build(submission.workflow_id)
            for build in (keys.workflow, keys.nodes, keys.bulk, keys.trace)
        ]
        assert all(redis_client.ttl(key) > 600 for key in own)
        run_all(coordinator, broker, {"rows": [[2]]})
        assert redis_client.hkeys(keys.bulk(submission.workflow_id)) == ["b"]
        assert all(3590 < redis_client.ttl(key) <= 3600 for key in own)

    def test_nothing_is_left_after_the_results_time(
        self, redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
    ) -> None:
        brief = BrokerSettings(url=settings.broker.url, prefix=keys.prefix, result_ttl_seconds=0.05)
        coordinator = Coordinator(
            redis_client,
            keys,
            settings.model_copy(update={"broker": brief}),
            {"dag": Dag()},
            broker,
        )
        submission = make_submission(nodes={"a": []})
        coordinator.start(submission)
        run_all(coordinator, broker, {"rows": [[2]]})
        until = time.monotonic() + 10
        while redis_client.keys("*:wf:*") and time.monotonic() < until:
            time.sleep(0.02)
        assert _kept(redis_client) == {keys.events, keys.records, keys.tenants}
        coordinator.complete(RequestRef(submission.workflow_id, "a", 1), {})
        assert _kept(redis_client) == {keys.events, keys.records, keys.tenants}

    def test_a_waiting_question_is_small(
        self, coordinator: Coordinator, redis_client: redis.Redis, keys: Keys
    ) -> None:
        before = _used(redis_client)
        for _ in range(200):
            coordinator.start(make_submission(nodes={"a": [], "b": ["a"], "x": ["b"]}))
        assert (_used(redis_client) - before) / 200 < 20_000

    def test_any_text_survives(
        self, coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis
    ) -> None:
        submission = make_submission(nodes={"a": []})
        coordinator.start(submission)
        ref = broker.take().ref
        coordinator.claim(ref, worker="w")
        coordinator.complete(ref, {"text": "\ud800 \x00 ä", "finish_reason": "\udfff"})
        state = coordinator.record(submission.workflow_id).nodes["a"].state()
        assert state.result == {"text": "\ud800 \x00 ä", "finish_reason": "\udfff"}


class TestTrace:
    def test_it_tells_what_happened_in_order(
        self, coordinator: Coordinator, broker: MemoryBroker
    ) -> None:
        submission = make_submission(nodes={"a": []})
        coordinator.start(submission)
        ref = broker.take().ref
        coordinator.claim(ref, worker="w", instance="i", queue=QUEUE)
        coordinator.first_token(ref)
        coordinator.complete(
            ref,
            {"input_tokens": 99, "output_tokens": [3], "seconds": math.nan, "text": "secret"},
        )
        events = coordinator.trace(submission.workflow_id)
        assert [event["event"] for event in events] == [
            "started",
            "ready",
            "sent",
            "claimed",
            "first_token",
            "done",
            "finished",
        ]
        times = [event["t"] for event in events]
        assert times == sorted(times)
        assert events[3].items() >= {"worker": "w", "instance": "i", "queue": QUEUE}.items()
        assert events[5].items() >= {"input_tokens": 99, "stage": "candidate_generation"}.items()
        assert "secret" not in str(events)
        assert events[6]["status"] == "answered"

    def test_the_deployments_stream_can_be_read_on(
        self, coordinator: Coordinator, broker: MemoryBroker, redis_client: redis.Redis, keys: Keys
    ) -> None:
        reader = TraceReader(redis_client, keys)
        first = make_submission(nodes={"a": []})
        coordinator.start(first)
        early = reader.after()
        assert {event.event["workflow"] for event in early} == {first.workflow_id}
        run_all(coordinator, broker)
        late = reader.after(early[-1].id)
        assert late[-1].event["event"] == "finished"
        assert reader.after(late[-1].id) == []

    def test_failures_are_in_it(self, coordinator: Coordinator, broker: MemoryBroker) -> None:
        submission = make_submission(nodes={"a": []})
        coordinator.start(submission)
        for _ in range(3):
            ref = broker.take().ref
            coordinator.claim(ref, worker="w")
            coordinator.fail(ref, {"code": "c", "message": "m" * 1000}, retryable=True)
        events = coordinator.trace(submission.workflow_id)
        failures = [event for event in events if event["event"] in ("retried", "failed")]
        assert [event["attempt"] for event in failures] == [1, 2, 3]
        assert failures[0]["message"] == "m" * 500


def test_status_shows_every_node(coordinator: Coordinator, broker: MemoryBroker) -> None:
    submission = make_submission(nodes={"a": [], "b": ["a"]})
    coordinator.start(submission)
    coordinator.claim(broker.take().ref, worker="w", instance="i", queue=QUEUE)
    report = coordinator.status(submission.workflow_id)
    assert report["status"] == "running"
    assert [(node["node"], node["status"]) for node in report["nodes"]] == [
        ("a", "running"),
        ("b", "waiting"),
    ]
    assert report["nodes"][0]["instance"] == "i"
    coordinator.cancel(submission.workflow_id, "enough")
    assert coordinator.status(submission.workflow_id)["cause"] == "enough"


def test_a_client_that_does_not_decode_is_refused(
    redis_url: str, keys: Keys, settings: Settings, broker: MemoryBroker
) -> None:
    with (
        redis.Redis.from_url(redis_url) as raw,
        pytest.raises(ValueError, match="decode_responses"),
    ):
        Coordinator(raw, keys, settings, {"dag": Dag()}, broker)


def _used(client: redis.Redis) -> int:
    return int(client.info("memory")["used_memory"])


def _kept(client: redis.Redis) -> set[str]:
    """The keys that do not expire by themselves, as the counts of the last hour do."""
    return {str(key) for key in client.keys("*") if client.ttl(key) < 0}
