"""The leases of a process that was seen to die end at once, and nobody else's."""

from __future__ import annotations

import socket

import pytest

from hexgen_celery.references import RequestRef
from hexgen_celery.transport.leases import LeaseRules, holder_prefix
from hexgen_celery.transport.messages import Claimed
from hexgen_celery.upkeep.dead_processes import end_leases_of
from hexgen_celery.upkeep.waiting import request_of
from tests.integration.scheduling.live_world import LiveWorld, instance

pytestmark = pytest.mark.integration

DEAD = 4242
LONG = 1000.0


def held_by(world: LiveWorld, holder: str) -> RequestRef:
    """Somebody has taken the next request, message and all."""
    claimed = world.queues.claim(holder, LONG, ("gpu.a100.x.a1",))
    assert isinstance(claimed, Claimed)
    ref = request_of(claimed.message)
    assert ref is not None
    assert world.coordinator.claim(ref, worker=holder, instance="a1") is not None
    return ref


def end_leases(world: LiveWorld) -> int:
    return end_leases_of(DEAD, world.client, world.binary, world.keys, world.settings)


def test_a_dead_process_loses_its_requests_to_new_attempts_and_others_keep_theirs(
    world: LiveWorld,
) -> None:
    world.directory.announce(instance("a1"))
    for _ in range(4):
        world.ask()
    host = socket.gethostname()
    others = [f"{host}:{DEAD}0:aa", f"{host}:1{DEAD}:bb", f"elsewhere:{DEAD}:cc"]
    lost = held_by(world, f"{holder_prefix(host, DEAD)}dd")
    kept = [held_by(world, holder) for holder in others]
    world.coordinator.tick()
    sweep = LeaseRules(seconds=LONG).sweep
    assert end_leases(world) == 1
    assert world.queues.sweep(sweep).put_back == 1
    assert world.coordinator.tick().lost == 1
    node = world.coordinator.record(lost.workflow_id).nodes["a"]
    assert (node.attempt, str(node.status)) == (2, "queued")
    assert end_leases(world) == 0
    assert world.coordinator.tick().lost == 0
    for ref in kept:
        assert str(world.coordinator.record(ref.workflow_id).nodes["a"].status) == "running"


def test_a_process_that_had_claimed_nothing_yet_only_gives_its_message_back(
    world: LiveWorld,
) -> None:
    world.directory.announce(instance("a1"))
    question = world.ask()
    prefix = holder_prefix(socket.gethostname(), DEAD)
    world.queues.claim(f"{prefix}dd", LONG, ("gpu.a100.x.a1",))
    world.coordinator.tick()
    assert end_leases(world) == 1
    assert world.queues.sweep(LeaseRules(seconds=LONG).sweep).put_back == 1
    assert world.coordinator.tick().lost == 0
    assert world.waiting("gpu.a100.x.a1") == 1
    world.work(question)
    assert world.coordinator.record(question).status == "answered"
