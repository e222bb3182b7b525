"""Instances come, go, drain and are refused; nothing that waits is left behind or lost."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import pytest

from hexgen_celery.api import Client
from hexgen_celery.eligibility import NoPool
from hexgen_celery.errors import ModelUnavailable
from hexgen_celery.instances import InstanceState
from hexgen_celery.ledger import LedgerView
from hexgen_celery.llm.failures import ContextOverflow
from hexgen_celery.outbox import OutboxEntry, Placement
from hexgen_celery.references import RequestRef
from hexgen_celery.router import LiveRouter
from hexgen_celery.scripts import Scripts
from hexgen_celery.transport.messages import decode, token_of
from hexgen_celery.upkeep import stranded
from hexgen_celery.upkeep.stranded import Rescuer
from hexgen_celery.workflows.definition import Failure, Json
from tests.integration.scheduling.live_world import LiveWorld, instance
from workers.overflow import LongerElsewhere

pytestmark = pytest.mark.integration

GONE = [InstanceState.DRAINING, InstanceState.SUSPECT, InstanceState.DOWN, None]


@pytest.mark.parametrize("state", GONE)
def test_what_waits_for_an_instance_that_goes_is_moved_with_its_load(
    world: LiveWorld, state: InstanceState | None
) -> None:
    world.directory.announce(instance("a1"))
    questions = [world.ask() for _ in range(7)]
    assert world.waiting("gpu.a100.x.a1") == 7
    world.directory.announce(instance("b1", "a6000"))
    if state is None:
        world.directory.withdraw("a1")
    else:
        world.directory.announce(instance("a1", state=state))
    assert world.rescuer.rescue() == 7
    assert world.rescuer.rescue() == 0
    assert (world.waiting("gpu.a100.x.a1"), world.waiting("gpu.a6000.x.b1")) == (0, 7)
    load = world.coordinator.load()
    assert set(load.queues) == {"gpu.a6000.x.b1"}
    assert load.queue("gpu.a6000.x.b1").waiting == 7
    assert [sent["instance"] for sent in world.sent(questions[0])] == ["a1", "b1"]
    for question in questions:
        world.work(question)
        assert world.coordinator.record(question).status == "answered"
    assert world.coordinator.load() == LedgerView({}, {})


def test_a_worker_that_claims_first_keeps_the_request(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    question = world.ask()
    ref = RequestRef(question, "a", 1)
    world.directory.announce(instance("b1", "a6000"))
    world.directory.withdraw("a1")
    world.coordinator.claim(ref, worker="w", instance="a1", queue="gpu.a100.x.a1")
    assert world.rescuer.rescue() == 0
    world.coordinator.complete(ref, {})
    assert world.coordinator.record(question).status == "answered"


def test_without_any_instance_requests_wait_where_they_are(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    question = world.ask()
    world.directory.announce(instance("a1", state=InstanceState.DOWN))
    assert world.rescuer.rescue() == 0
    assert world.waiting("gpu.a100.x.a1") == 1
    world.directory.announce(instance("a1"))
    world.work(question)
    assert world.coordinator.record(question).status == "answered"


def test_a_pool_without_a_ready_instance_is_never_chosen(world: LiveWorld) -> None:
    for state in InstanceState:
        if state is not InstanceState.READY:
            world.directory.announce(instance(f"a-{state}", state=state))
    question = world.ask()
    assert world.queue_of(question) == ""
    assert world.coordinator.load() == LedgerView({}, {})
    world.directory.announce(instance("b1", "a6000"))
    later = world.ask()
    assert world.queue_of(later) == "gpu.a6000.x.b1"


def test_an_instance_that_comes_back_is_chosen_again(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    world.directory.announce(instance("b1", "a6000"))
    assert world.queue_of(world.ask()) == "gpu.a100.x.a1"
    world.directory.announce(instance("a1", state=InstanceState.DOWN))
    assert world.queue_of(world.ask()) == "gpu.a6000.x.b1"
    world.directory.announce(instance("a1"))
    assert world.queue_of(world.ask()) == "gpu.a100.x.a1"


def test_a_request_goes_only_where_its_context_fits(world: LiveWorld) -> None:
    """The requests of the test's workflow have 100 tokens in and 64 out."""
    world.directory.announce(instance("a1", max_model_len=163))
    world.directory.announce(replace(instance("b1", "a6000"), max_model_len=164))
    assert world.queue_of(world.ask()) == "gpu.a6000.x.b1"


def test_a_request_that_did_not_fit_is_tried_where_there_is_more_room_and_nowhere_else(
    world: LiveWorld,
) -> None:
    """Its length was underestimated: by that it fits everywhere."""
    short, long = instance("a1", offered_len=200), instance("b1", "a6000", offered_len=300)
    world.directory.announce(short)
    question = world.ask()
    ref = RequestRef(question, "a", 1)
    queue = world.queue_of(question)
    request = world.coordinator.claim(ref, worker="w", instance="a1", queue=queue)
    assert request is not None
    elsewhere = LongerElsewhere(world.directory, "a1", 5.0)
    overflow = ContextOverflow("it has 250 tokens")
    assert elsewhere.judged(request, overflow) is overflow
    world.directory.announce(instance("a2", offered_len=200))
    assert elsewhere.judged(request, overflow) is overflow, "one as short refuses it too"
    world.directory.announce(long)
    failure = elsewhere.judged(request, overflow)
    assert isinstance(failure, ModelUnavailable), "so that there is another attempt"
    world.coordinator.fail(ref, dict(failure.to_json()), retryable=True)
    assert world.queue_of(question) == long.own_queue
    world.directory.withdraw("b1")
    world.rescuer.rescue()
    assert world.queue_of(question) == long.own_queue, "it waits, rather than fail on a short one"


def test_a_request_goes_only_to_pools_with_its_tags(world: LiveWorld) -> None:
    world.directory.announce(instance("a1", tags=("us",)))
    world.directory.announce(instance("b1", "a6000", tags=("eu", "quiet")))
    assert world.queue_of(world.ask(tags=["eu"])) == "gpu.a6000.x.b1"
    assert world.queue_of(world.ask(tags=["us", "quiet"])) == ""
    assert world.queue_of(world.ask(model="m", tags=["us"])) == "gpu.a100.x.a1"


def test_an_instance_whose_profile_cannot_be_read_here_keeps_nobody_from_the_others(
    world: LiveWorld,
) -> None:
    """Its worker reads a file that is on its own host alone."""
    world.directory.announce(instance("a1", profile="only-there.toml"))
    question = world.ask()
    assert world.queue_of(question) == ""
    entry = world.coordinator.record(question).entry(RequestRef(question, "a", 1), resent=False)
    with pytest.raises(NoPool, match=r"a1 .*there is no profile 'only-there.toml'"):
        world.router.place(entry)
    world.directory.announce(instance("b1", "a6000"))
    assert world.queue_of(world.ask()) == "gpu.a6000.x.b1"
    assert world.router.usable_queues() == {"gpu.a6000.x", "gpu.a6000.x.b1"}


def test_a_drain_is_heard_with_the_next_beat(world: LiveWorld) -> None:
    record = instance("a1")
    assert world.directory.announce(record) is False
    world.directory.drain("a1")
    assert world.directory.announce(record) is True
    assert world.directory.resume("a1") is True
    assert world.directory.resume("a1") is False
    assert world.directory.announce(record) is False


def test_an_instance_that_was_silent_for_long_is_forgotten(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    time.sleep(0.2)
    world.directory.announce(instance("a2"))
    assert world.directory.forget_silent(60.0) == []
    assert world.directory.forget_silent(0.1) == ["a1"]
    assert [record.name for record in world.directory.snapshot()[1]] == ["a2"]


def test_without_any_instance_it_is_told_who_waits_and_the_deadline_ends_it(
    world: LiveWorld,
) -> None:
    down = instance("a1", state=InstanceState.DOWN, reason="connection refused")
    world.directory.announce(down)
    question = world.ask(slo=0.5)
    with Client(world.settings) as client:
        (stuck,) = client.stuck(client.running())
    assert (stuck.question, stuck.node, stuck.queue) == (question, "a", "")
    assert "no instance is ready" in stuck.why
    assert "a1 (gpu.a100.x, down: connection refused)" in stuck.why
    time.sleep(0.6)
    world.coordinator.tick()
    record = world.coordinator.record(question)
    assert record.status == "expired"
    assert isinstance(record.outcome, Failure)
    assert "no instance is ready" in record.outcome.cause


def test_what_waits_behind_an_instance_that_went_is_told_too(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    question = world.ask()
    with Client(world.settings) as client:
        assert client.stuck(client.running()) == []
        world.directory.announce(instance("a1", state=InstanceState.DOWN, reason="gone"))
        (stuck,) = client.stuck(client.running())
    assert (stuck.question, stuck.queue) == (question, "gpu.a100.x.a1")
    assert stuck.why == "a1 is down: gone"


def test_a_claim_between_a_move_and_its_confirmation_leaves_the_new_estimates(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.directory.announce(instance("a1"))
    question = world.ask()
    ref = RequestRef(question, "a", 1)
    world.directory.announce(instance("b1", "a6000"))
    world.directory.withdraw("a1")
    confirm = Scripts.confirm

    def claimed_first(scripts: Scripts, workflow_id: str, sent: list[Json]) -> int:
        world.coordinator.claim(ref, worker="w", instance="b1", queue="gpu.a6000.x.b1")
        return confirm(scripts, workflow_id, sent)

    monkeypatch.setattr(Scripts, "confirm", claimed_first)
    assert world.rescuer.rescue() == 1
    first, second = world.sent(question)
    assert (first["instance"], second["instance"]) == ("a1", "b1")
    load = world.coordinator.load().instance("b1")
    token = token_of(str(ref))
    value = world.binary.hget(f"{world.keys.queue_root}:messages", token)
    assert isinstance(value, bytes)
    urgency = decode(token, value).urgency
    assert (load.prefill_us, load.decode_us) == (urgency.prefill_us, urgency.decode_us)
    world.coordinator.complete(ref, {})
    assert world.coordinator.load() == LedgerView({}, {})


def test_moves_do_not_put_off_that_a_lost_message_is_sent_again(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    question = world.ask()
    for number in range(2, 8):
        world.directory.announce(instance(f"a{number}"))
        world.directory.withdraw(f"a{number - 1}")
        assert world.rescuer.rescue() == 1
    now_ms = time.time() * 1000
    due_ms = world.client.zscore(world.keys.outbox, f"{question}/a/1")
    assert isinstance(due_ms, float)
    assert due_ms - now_ms <= 1000 * world.settings.coordinator.requeue_after_seconds


def test_what_nobody_can_take_is_not_looked_at_again_until_the_cluster_changes(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look loads hundreds of questions, twice a second, in every control worker."""
    world.directory.announce(instance("a1"))
    for _ in range(3):
        world.ask()
    world.directory.announce(instance("a1", state=InstanceState.DOWN))
    place, looks = LiveRouter.place, itertools.count()

    def counted(router: LiveRouter, entry: OutboxEntry) -> Placement:
        next(looks)
        return place(router, entry)

    monkeypatch.setattr(LiveRouter, "place", counted)
    for _ in range(5):
        assert world.rescuer.rescue() == 0
    assert next(looks) == 3
    world.directory.announce(instance("b1", "a6000"))
    assert world.rescuer.rescue() == 3


def test_what_nobody_can_take_keeps_nobody_behind_it_from_being_moved(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stranded, "HOPELESS_SECONDS", 0.0)
    rescuer = Rescuer(
        world.client, world.binary, world.keys, world.settings, world.router, at_once=2
    )
    world.directory.announce(instance("a1", tags=("eu",)))
    for _ in range(3):
        world.ask(slo=60.0, tags=["eu"])
    world.ask(slo=600.0)
    world.directory.announce(instance("a1", tags=("eu",), state=InstanceState.DOWN))
    world.directory.announce(instance("b1", "a6000"))
    assert [rescuer.rescue() for _ in range(2)] == [0, 1]
    assert world.waiting("gpu.a100.x.a1") == 3
    assert world.waiting("gpu.a6000.x.b1") == 1
    world.directory.announce(instance("b1", "a6000", tags=("eu",)))
    assert sum(rescuer.rescue() for _ in range(2)) == 3
