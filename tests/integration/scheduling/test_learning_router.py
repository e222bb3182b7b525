"""The router decides by what was learnt, what is cached and the policy in force."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import pytest
import redis

from hexgen_celery.api import Client
from hexgen_celery.coordination.state import WorkflowRecord, WorkflowStore
from hexgen_celery.core.prefix import PrefixPart
from hexgen_celery.eligibility import NoPool
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.keys import Keys
from hexgen_celery.learning import Learner
from hexgen_celery.learning.knowledge import CacheTruth
from hexgen_celery.learning.store import KnowledgeStore
from hexgen_celery.outbox import OutboxEntry
from hexgen_celery.policies import PolicyChoice, PolicyStore
from hexgen_celery.references import RequestRef
from hexgen_celery.settings import QueueSettings, Settings
from hexgen_celery.transport.messages import Urgency, token_of
from hexgen_celery.upkeep.rescoring import Rescorer
from hexgen_celery.workflows.definition import LlmCall, NodeKind, NodeSpec, PartRef, Submission
from tests.integration.scheduling.live_world import LiveWorld, instance

pytestmark = pytest.mark.integration

LONG = tuple(PartRef(f"part{number}", 8000) for number in range(2))


def _entry(number: int, parts: tuple[PartRef, ...] = LONG, **values: Any) -> OutboxEntry:
    call = LlmCall(parts, "t", 16_100, 20.0, 64)
    spec = NodeSpec("a", NodeKind.LLM, "candidate_generation", "candidate", call)
    fields = {"tenant": "t", **values}
    now = time.time()
    submission = Submission(f"q{number}", "dag", "q", "db", 60.0, now, now + 60.0, **fields)
    return OutboxEntry(RequestRef(f"q{number}", "a", 1), spec, submission)


def _answer(world: LiveWorld, count: int, **result: Any) -> None:
    for _ in range(count):
        question = world.ask()
        world.work(question, **result)


def _rank(world: LiveWorld, question: str) -> float:
    token = token_of(f"{question}/a/1")
    waiting = world.queues.peek(world.queue_of(question), 50)
    return next(message.urgency.key for message, _ in waiting if message.token == token)


def test_every_decision_says_why(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    world.directory.announce(instance("b1", "a6000"))
    (sent,) = world.sent(world.ask())
    assert (sent["policy"], sent["instance"]) == ("alpha", "a1")
    assert sent["considered"].startswith("a1 ")
    assert "b1 " in sent["considered"]
    assert {"score", "own", "imposed", "prefill", "slack", "weight", "cached"} <= set(sent)


def test_a_policy_is_in_force_with_the_next_decision_of_every_router(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    store = PolicyStore(world.client, world.keys)
    other = world.another_router()
    for router in (world.router, other):
        assert router.place(_entry(1)).reasons["policy"] == "alpha"
    store.set(PolicyChoice("alpha", {"alpha": 0.7, "patience": 0.0}), tenant="t")
    for router in (world.router, other):
        assert router.place(_entry(2)).reasons["weight"] == pytest.approx(0.7)
        assert router.place(_entry(3, tenant="u")).reasons["weight"] != pytest.approx(0.7)
    assert store.clear(tenant="t") is True
    assert world.router.place(_entry(4)).reasons["weight"] != pytest.approx(0.7)
    assert store.read() == {}
    with pytest.raises(InvalidSettings, match="clairvoyant"):
        store.set(PolicyChoice("clairvoyant"))


def test_equal_prompts_go_where_their_beginning_is_cached(world: LiveWorld) -> None:
    """Also when another process placed the first: the confirmation leaves the note."""
    world.directory.announce(instance("a1"))
    world.directory.announce(instance("a2"))
    first = world.router.place(_entry(1))
    assert first.prefill_tokens == 16_100
    note = first.note
    assert note is not None
    world.client.xadd(world.keys.placements, {"n": note})
    other = world.another_router(random.Random(3))
    again = other.place(_entry(2))
    assert again.queue == first.queue
    assert again.prefill_tokens == 100
    assert again.reasons["cached"] == 16_000
    assert again.urgency is not None
    assert again.urgency.prefill_tokens == 100


def test_affinity_yields_to_a_long_wait(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    world.directory.announce(instance("a2"))
    first = world.router.place(_entry(1))
    busy = str(first.reasons["instance"])
    scope = f"{first.queue}"
    world.client.hset(world.keys.load, f"{scope}:waiting", "40")
    world.client.hset(world.keys.load, f"{scope}:prefill_tokens", "500000")
    assert world.router.place(_entry(2)).reasons["instance"] != busy


def test_the_confirmation_of_a_message_tells_other_routers(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    world.ask()
    assert world.client.xlen(world.keys.placements) == 1


def test_a_state_of_another_version_does_not_end_learning(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    _answer(world, 3, output_tokens=60)
    world.learner.learn()
    for state in ('{"another": "form"}', "[]", "not JSON"):
        world.client.hset(world.keys.estimates, "state", state)
        successor = Learner(world.client, world.keys, "learner-1")
        assert successor.learn() == 3
        known, _ = KnowledgeStore(world.client, world.keys).load()
        assert known.questions == 3


def test_a_question_of_another_version_does_not_end_learning(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.directory.announce(instance("a1"))
    _answer(world, 3, output_tokens=60)
    load, calls = WorkflowStore.load, itertools.count()

    def odd_once(store: WorkflowStore, workflow_id: str) -> WorkflowRecord | None:
        if next(calls) == 1:
            raise KeyError("a field of another version")
        return load(store, workflow_id)

    monkeypatch.setattr(WorkflowStore, "load", odd_once)
    assert world.learner.learn() == 2


def test_what_broke_off_half_way_is_learnt_at_the_next_call(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.directory.announce(instance("a1"))
    _answer(world, 5, output_tokens=60)
    load, calls = WorkflowStore.load, itertools.count()

    def breaks_once(store: WorkflowStore, workflow_id: str) -> WorkflowRecord | None:
        if next(calls) == 2:
            raise redis.ConnectionError("away")
        return load(store, workflow_id)

    monkeypatch.setattr(WorkflowStore, "load", breaks_once)
    with pytest.raises(redis.ConnectionError):
        world.learner.learn()
    world.learner.learn()
    known, _ = KnowledgeStore(world.client, world.keys).load()
    assert known.questions == 5


def test_outputs_and_paths_are_learnt_and_used_by_a_router_that_starts_later(
    world: LiveWorld,
) -> None:
    world.directory.announce(instance("a1"))
    _answer(world, 40, output_tokens=60, seconds=2.0)
    assert world.learner.learn() == 40
    router = world.another_router()
    router.knowledge.refresh()
    placement = router.place(_entry(1))
    assert placement.output_tokens == pytest.approx(60, abs=6)
    assert placement.budget is not None
    assert float(placement.reasons["remaining"]) > 0
    low, high = (float(placement.reasons[f"remaining_{name}"]) for name in ("p10", "p90"))
    assert low <= high


def test_a_learner_takes_over_where_another_saved(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    _answer(world, 3)
    assert world.learner.learn() == 3
    follower = Learner(world.client, world.keys, "learner-2")
    assert follower.learn() == 0
    world.client.delete(world.keys.learner)
    _answer(world, 2)
    assert follower.learn() == 2
    assert KnowledgeStore(world.client, world.keys).calibration().questions in (3, 5)
    assert world.learner.learn() == 0


def test_calibration_is_kept_for_people(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    _answer(world, 12)
    world.learner.learn()
    world.router.knowledge.refresh()
    _answer(world, 12)
    world.learner._save_after = 0.0
    assert world.learner.learn() == 12
    report = KnowledgeStore(world.client, world.keys).calibration()
    assert report.questions == 24
    assert report.by_estimate["output tokens"].count == 12
    assert report.by_estimate["remaining seconds"].count == 12
    with Client(world.settings) as client:
        assert client.calibration() == report


def test_a_request_that_waits_is_ranked_anew_when_estimates_change(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    waiting = world.ask(slo=300.0)
    ((before, _),) = world.queues.peek("gpu.a100.x.a1", 10)
    _answer(world, 20, seconds=30.0)
    world.learner.learn()
    assert world.rescorer.rescore() == 1
    after = next(m for m, _ in world.queues.peek("gpu.a100.x.a1", 50) if m.token == before.token)
    assert after.payload == before.payload
    assert after.urgency.feasible_until < before.urgency.feasible_until
    assert world.rescorer.rescore() == 0
    world.work(waiting)
    assert world.coordinator.record(waiting).status == "answered"


def test_those_behind_many_are_ranked_anew_a_few_at_a_time(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    questions = [world.ask(slo=300.0) for _ in range(5)]
    before = {question: _rank(world, question) for question in questions}
    world.directory.announce(instance("b1", "a6000"))
    world.directory.announce(instance("a1", state="draining"))
    _answer(world, 20, seconds=30.0)
    world.directory.announce(instance("a1"))
    world.learner.learn()
    rescorer = Rescorer(world.client, world.binary, world.keys, world.router, at_once=2)
    assert [rescorer.rescore() for _ in range(3)] == [4, 1, 0]
    assert all(_rank(world, question) < before[question] for question in questions)


def test_those_behind_many_have_their_turn_though_estimates_change_all_the_time(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.directory.announce(instance("a1"))
    questions = {world.ask(slo=300.0) for _ in range(7)}
    looked_at: set[str] = set()

    def reconsidered(entry: OutboxEntry, urgency: Urgency) -> Urgency:
        looked_at.add(entry.ref.workflow_id)
        return urgency

    monkeypatch.setattr(world.router, "reconsidered", reconsidered)
    rescorer = Rescorer(world.client, world.binary, world.keys, world.router, at_once=2)
    for state in ("ready", "down", "ready"):
        world.directory.announce(instance("b1", "a6000", state=state))
        rescorer.rescore()
    assert looked_at == questions


def test_a_request_that_waits_is_ranked_anew_when_only_slow_instances_are_left(
    world: LiveWorld,
) -> None:
    """What is left of its question takes longer there, so that it must start earlier."""
    world.directory.announce(instance("a1"))
    world.directory.announce(instance("b1", "a6000"))
    _answer(world, 20, seconds=2.0)
    world.learner.learn()
    world.router.knowledge.refresh()
    question = world.ask(slo=300.0)
    before = _rank(world, question)
    world.directory.announce(instance("a1", state="down"))
    assert world.rescorer.rescore() >= 1
    assert _rank(world, question) < before - 0.05
    assert world.rescorer.rescore() == 0


def test_who_came_first_stays_first_however_often_ranks_are_looked_at(
    redis_client: redis.Redis, keys: Keys, settings: Settings
) -> None:
    first_come = settings.model_copy(update={"queues": QueueSettings(order="fcfs")})
    world = LiveWorld(redis_client, keys, first_come)
    world.directory.announce(instance("a1"))
    questions = [world.ask(), world.ask()]
    before = [_rank(world, question) for question in questions]
    _answer(world, 20, seconds=2.0)
    world.learner.learn()
    time.sleep(0.1)
    world.rescorer.rescore()
    after = [_rank(world, question) for question in questions]
    assert after == sorted(after)
    assert all(new <= old for new, old in zip(after, before, strict=True))
    world.close()


def test_without_any_instance_ranks_stay(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    question = world.ask(slo=300.0)
    before = _rank(world, question)
    world.directory.announce(instance("a1", state="down"))
    assert world.rescorer.rescore() == 0
    assert _rank(world, question) == before


def test_an_overrun_of_a_budget_is_a_debit_in_the_trace(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    _answer(world, 3)
    world.learner.learn()
    world.router.knowledge.refresh()
    question = world.ask()
    world.work(question)
    done = next(e for e in world.coordinator.trace(question) if e["event"] == "done")
    assert done["budget"] > 0
    assert done["debit"] == pytest.approx(-done["budget"], abs=5.0)


def test_a_cached_prefix_is_priced_by_what_servers_report(world: LiveWorld) -> None:
    """Servers that report half of what the shadow caches believe are believed half."""
    world.directory.announce(instance("a1"))
    knowledge, _ = KnowledgeStore(world.client, world.keys).load()
    knowledge.caches["a1"] = CacheTruth(1000.0, 500.0, ever_reported=True)
    KnowledgeStore(world.client, world.keys).save(knowledge, "0-0")
    world.router.knowledge.refresh()
    world.router.place(_entry(1))
    again = world.router.place(_entry(2))
    assert again.reasons["cached"] == 16_000
    assert again.prefill_tokens == 16_100 - 8_000


def test_parts_are_what_caches_share() -> None:
    assert _entry(1).spec.call.prefix == (  # type: ignore[union-attr]
        PrefixPart("part0", 8000),
        PrefixPart("part1", 8000),
    )


def test_more_events_than_one_batch_are_caught_up_with(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hexgen_celery.learning.learner.BATCH", 7)
    world.directory.announce(instance("a1"))
    _answer(world, 9)
    assert world.learner.learn() == 9


def test_prompt_tokens_follow_what_servers_count(world: LiveWorld) -> None:
    """The test's requests are counted as 100 tokens by us."""
    world.directory.announce(instance("a1"))
    _answer(world, 3, input_tokens=130)
    world.learner.learn()
    world.router.knowledge.refresh()
    assert world.router.place(_entry(1)).prefill_tokens == round(1.3 * 16_100)
    assert world.router.place(_entry(2)).prefill_tokens == round(1.3 * 16_100) - round(1.3 * 16_000)


def test_a_prompt_goes_where_it_fits_by_the_servers_count(world: LiveWorld) -> None:
    """By our count of 16,100 and 64 for the answer it fits into both, by theirs into one."""
    fast, slow = instance("a1", max_model_len=20_000), instance("b1", "a6000", max_model_len=22_000)
    for record in (fast, slow):
        world.directory.announce(record)
    assert world.router.place(_entry(1)).reasons["instance"] == "a1"
    _answer(world, 3, input_tokens=130)
    world.learner.learn()
    world.router.knowledge.refresh()
    assert world.router.place(_entry(2)).reasons["instance"] == "b1"
    world.directory.withdraw("b1")
    assert world.router.place(_entry(3)).reasons["instance"] == "a1", (
        "it may have been learnt wrong"
    )
    world.directory.announce(instance("a1", max_model_len=16_163))
    with pytest.raises(NoPool, match="room for 16164 tokens"):
        world.router.place(_entry(4))


def test_a_server_with_room_is_preferred_and_one_without_says_so_itself(world: LiveWorld) -> None:
    """No pool promises a length here: nothing may wait for what nobody has."""
    world.directory.announce(instance("a1", offered_len=16_163))
    assert world.router.place(_entry(1)).reasons["instance"] == "a1"
    world.directory.announce(instance("b1", "a6000", offered_len=16_164))
    assert world.router.place(_entry(2)).reasons["instance"] == "b1"
