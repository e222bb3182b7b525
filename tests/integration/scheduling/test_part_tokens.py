"""Prompt parts are counted by the server that gets them, and routers go by those counts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hexgen_celery.outbox import OutboxEntry
from hexgen_celery.part_tokens import KEPT_SECONDS, PartTokens, PartTokenStore
from hexgen_celery.references import RequestRef
from hexgen_celery.workflows.definition import LlmCall, NodeKind, NodeSpec, PartRef, Submission
from tests.integration.scheduling.live_world import LiveWorld, instance

pytestmark = pytest.mark.integration

CALL = LlmCall((PartRef("template", 1000), PartRef("syn:x:50", 50)), "t", 1100, 20.0, 64)


def _entry() -> OutboxEntry:
    spec = NodeSpec("a", NodeKind.LLM, "candidate_generation", "candidate", CALL)
    now = time.time()
    submission = Submission("q1", "dag", "q", "db", 60.0, now, now + 60.0)
    return OutboxEntry(RequestRef("q1", "a", 1), spec, submission)


def _until(condition: Any, seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened in time"
        time.sleep(0.01)


def test_a_router_decides_at_once_and_knows_the_count_later(world: LiveWorld) -> None:
    world.directory.announce(instance("a1"))
    PartTokenStore(world.client, world.keys).write(("m", "template"), 1234)
    router = world.another_router()
    assert router.place(_entry()).prefill_tokens == 1100
    _until(lambda: router._part_tokens.of(CALL, "m") == [1234, None])
    world.directory.announce(instance("b1", epoch=1.0))
    world.directory.withdraw("a1")
    assert router.place(_entry()).prefill_tokens == 1234 + 100


def test_counts_are_per_model_and_expire(world: LiveWorld) -> None:
    store = PartTokenStore(world.client, world.keys)
    store.write(("m", "template"), 1234)
    assert store.read([("m", "template"), ("other", "template")]) == {("m", "template"): 1234}
    left = world.client.ttl(world.keys.part_tokens("m", "template"))
    assert 0 < int(str(left)) <= KEPT_SECONDS


def test_synthetic_parts_are_never_asked_for(world: LiveWorld) -> None:
    counts = PartTokens(world.client, world.keys)
    only = LlmCall((PartRef("syn:x:50", 50),), "t", 60, 1.0, 2)
    assert counts.of(only, "m") == [None]
    assert not counts._unknown


def test_a_router_goes_on_without_redis(world: LiveWorld) -> None:
    counts = PartTokens(world.client, world.keys)
    world.client.connection_pool.disconnect()
    world.client.connection_pool.connection_kwargs["port"] = 1
    assert counts.of(CALL, "m") == [None, None]
    _until(lambda: not counts._refreshing._running.locked())
    assert counts.of(CALL, "m") == [None, None]
