"""Requests that were claimed, or even done, before their sender could confirm the message."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from hexgen_celery.coordination import Coordinator, OutboxEntry, Placement
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from tests.integration.coordination.support import (
    QUEUE,
    Dag,
    Leftovers,
    MemoryBroker,
    make_submission,
)

ESTIMATED = Placement(QUEUE, 7, 8, 1_234, 5_678, budget=2.5, reasons={"score": 0.25})


class Eager(MemoryBroker):
    """Delivers each message before `publish` returns; `progress` is how far its worker gets."""

    def __init__(self, progress: str) -> None:
        super().__init__()
        self.progress = progress
        self.coordinator: Coordinator | None = None

    def publish(self, entry: OutboxEntry) -> Any:
        super().publish(entry)
        assert self.coordinator is not None
        assert self.coordinator.claim(entry.ref, worker="w", instance="i", queue=QUEUE)
        if self.progress in ("first token", "done"):
            self.coordinator.first_token(entry.ref)
        if self.progress == "done" and entry.ref.node_id == "a":
            self.coordinator.complete(entry.ref, {"text": "x"})
        return ESTIMATED


@pytest.mark.parametrize(
    ("progress", "prefill", "decode"),
    [
        ("claimed", (7, 1_234), (8, 5_678)),
        ("first token", (0, 0), (8, 5_678)),
        ("done", None, None),
    ],
)
def test_what_the_router_decided_is_kept(
    redis_client: redis.Redis,
    keys: Keys,
    settings: Settings,
    progress: str,
    prefill: tuple[int, int] | None,
    decode: tuple[int, int] | None,
    leftovers: Leftovers,
) -> None:
    broker = Eager(progress)
    coordinator = Coordinator(redis_client, keys, settings, {"dag": Dag()}, broker)
    broker.coordinator = coordinator
    # The second node keeps the question running.
    submission = make_submission(nodes={"a": [], "b": []})
    coordinator.start(submission)
    load = coordinator.load().instances.get("i")
    if prefill is not None and decode is not None:
        assert load is not None
        assert (load.prefill_tokens, load.prefill_us) == (2 * prefill[0], 2 * prefill[1])
        assert (load.output_tokens, load.decode_us) == (2 * decode[0], 2 * decode[1])
    events = coordinator.trace(submission.workflow_id)
    assert [event["score"] for event in events if event["event"] == "sent"] == [0.25, 0.25]
    for entry in broker.messages:
        coordinator.complete(entry.ref, {"text": "x"})
    assert leftovers() == {}
