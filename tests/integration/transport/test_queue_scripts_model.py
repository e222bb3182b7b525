"""The queue scripts on a real Redis against the pure model, in random histories."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import cast

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from hexgen_celery.core.admission import Allowance
from hexgen_celery.core.order.claim import ClaimRules
from hexgen_celery.transport.inspection import QueueInspector
from hexgen_celery.transport.messages import Claimed, Outgoing, Urgency, encode, token_of
from hexgen_celery.transport.scripts import QueueScripts, SweepRules
from tests.integration.transport.queue_model import QueueModel

pytestmark = pytest.mark.integration

ROOT = "{model}:queue"
LONG = 1000.0
DELIVERIES = 3
SWEEP = SweepRules(LONG, 0.0, LONG, DELIVERIES, dead_letters=1000)
POOL, INSTANCE = "gpu.a100.x", "gpu.a100.x.1"
QUEUE_SETS = ((POOL,), (INSTANCE,), (POOL, INSTANCE), ("sql",))

holders = st.sampled_from(["one", "two"])
queues = st.sampled_from([POOL, INSTANCE, "sql"])
# Far from the present, so that no run is slow enough to change what is feasible.
moments = st.sampled_from([-LONG, LONG, math.inf])
keys = st.integers(0, 5) | st.sampled_from([4e9, 5e9])
rooms = st.integers(0, 6) | st.just(math.inf)


@st.composite
def urgencies(draw: st.DrawFn) -> Urgency:
    small = st.integers(0, 5)
    return Urgency(
        key=draw(keys),
        feasible_until=time.time() + draw(moments),
        since=draw(small),
        kv_tokens=draw(small),
        prefill_tokens=draw(small),
        prefill_us=draw(small),
        decode_us=draw(small),
    )


class Queues(RuleBasedStateMachine):
    """One history; `client` is set by the test."""

    client: redis.Redis
    tokens = Bundle("tokens")

    def __init__(self) -> None:
        super().__init__()
        for key in self.client.keys(f"{ROOT}*"):
            self.client.delete(key)
        self.claim_rules = ClaimRules(every=3, patience=2, depth=2)
        self.model = QueueModel(self.claim_rules, DELIVERIES)
        self.scripts = QueueScripts(self.client, ROOT)
        self.payloads: dict[str, bytes] = {}

    @rule(target=tokens, number=st.integers(0, 30), queue=queues, urgency=urgencies())
    def put(self, number: int, queue: str, urgency: Urgency) -> str:
        token = token_of(str(number))
        payload = f"payload {len(self.payloads)}".encode()
        expected = self.model.put(token, queue, urgency)
        assert self.scripts.put(Outgoing(token, encode(queue, urgency, payload))) is expected
        if expected:
            self.payloads[token] = payload
        return token

    @rule(
        holder=holders,
        names=st.sampled_from(QUEUE_SETS),
        allowance=st.builds(Allowance, rooms, rooms, st.integers(0, 3)),
    )
    def claim(self, holder: str, names: tuple[str, ...], allowance: Allowance) -> None:
        expected = self.model.claim(holder, names, allowance)
        outcome = self.scripts.claim(holder, LONG, names, allowance, self.claim_rules)
        if expected is None:
            assert not isinstance(outcome, Claimed)
            assert outcome.waits is bool(self.model.waiting(*names))
            return
        assert isinstance(outcome, Claimed)
        message = outcome.message
        assert (message.token, message.queue) == (expected.token, expected.queue)
        assert message.urgency == expected.urgency
        assert message.payload == self.payloads[message.token]
        assert message.deliveries == expected.deliveries

    @rule(holder=holders, token=tokens)
    def first_token(self, holder: str, token: str) -> None:
        assert self.scripts.first_token(holder, token) is self.model.first_token(holder, token)

    @rule(token=tokens)
    def ack(self, token: str) -> None:
        assert self.scripts.ack({token: ""}).ended == int(self.model.ack(token))

    @rule(token=tokens)
    def ack_of_work_that_redis_lost(self, token: str) -> None:
        known = token in self.model.entries
        acknowledged = self.scripts.ack({token: f"{ROOT}:no-such-proof"})
        assert acknowledged.unproven == ((token,) if known else ())
        assert acknowledged.ended == 0
        self.model.hand_back(token)

    @rule(holder=holders, token=tokens)
    def requeue(self, holder: str, token: str) -> None:
        assert self.scripts.requeue(holder, [token]) == int(self.model.requeue(holder, token))

    @rule(holder=holders, token=tokens)
    def reject(self, holder: str, token: str) -> None:
        assert self.scripts.reject(holder, [token], "no") == int(self.model.reject(holder, token))

    @rule(holder=holders, token=tokens)
    def renew(self, holder: str, token: str) -> None:
        """What it holds, and one it may have lost: taken again if it waits."""
        held = [*dict.fromkeys([*self.model.held(holder), token])]
        assert self.scripts.renew(holder, LONG, held) == self.model.renew(holder, held)

    @rule(token=tokens)
    def lease_ends(self, token: str) -> None:
        entry = self.model.entries.get(token)
        if entry is None or not entry.holder:
            return
        self.client.zadd(f"{ROOT}:leases", {token: 1})
        swept = self.scripts.sweep(SWEEP)
        assert swept.put_back + swept.buried == 1
        self.model.end_lease(token)
        assert swept.buried == int(token in self.model.dead)

    @rule(token=tokens, key=keys, moment=moments)
    def rescore(self, token: str, key: float, moment: float) -> None:
        until = time.time() + moment
        assert self.scripts.rescore(token, key, until) is self.model.rescore(token, key, until)

    @rule(token=tokens, goal=queues, urgency=urgencies())
    def redirect(self, token: str, goal: str, urgency: Urgency) -> None:
        expected = self.model.redirect(token, goal, urgency)
        assert self.scripts.redirect(token, goal, urgency) is expected

    @rule(token=tokens)
    def remove(self, token: str) -> None:
        assert self.scripts.remove([token]) == int(self.model.remove(token))

    @rule(token=tokens)
    def redrive(self, token: str) -> None:
        assert self.scripts.redrive([token]) == int(self.model.redrive(token))

    @invariant()
    def counters_and_places_agree(self) -> None:
        assert hash_of(self.client, f"{ROOT}:load") == self.model.load()
        for queue in (POOL, INSTANCE, "sql"):
            names = sorted(entry.token for entry in self.model.waiting(queue))
            places = [f"{ROOT}:{queue}:{part}" for part in ("waiting", "demoted")]
            assert sorted(token for key in places for token in set_of(self.client, key)) == names
        running = {entry.queue for entry in self.model.entries.values() if entry.holder}
        lengths = QueueInspector(self.client, ROOT).lengths([POOL, INSTANCE, "sql"])
        assert {queue.name for queue in lengths if queue.running} == running
        held = sorted(entry.token for entry in self.model.entries.values() if entry.holder)
        assert sorted(set_of(self.client, f"{ROOT}:leases")) == held

    def teardown(self) -> None:
        """When all is done nothing is left but what outlives messages."""
        self.scripts.ack(dict.fromkeys(self.model.entries, ""))
        self.scripts.drop(list(self.model.dead))
        assert keys_of(self.client) <= {f"{ROOT}:{kind}" for kind in ("claims", "swept", "watched")}


def hash_of(client: redis.Redis, key: str) -> dict[str, int]:
    values = cast("dict[bytes, bytes]", client.hgetall(key))
    return {name.decode(): int(value) for name, value in values.items()}


def set_of(client: redis.Redis, key: str) -> list[str]:
    return [token.decode() for token in cast("list[bytes]", client.zrange(key, 0, -1))]


def keys_of(client: redis.Redis) -> set[str]:
    return {key.decode() for key in cast("list[bytes]", client.keys(f"{ROOT}*"))}


def test_only_the_newest_dead_letters_are_kept_and_the_others_counted(redis_url: str) -> None:
    rules = replace(SWEEP, dead_letters=2)
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
        scripts, inspector = QueueScripts(client, ROOT), QueueInspector(client, ROOT)
        tokens = [token_of(str(number)) for number in range(5)]
        for number, token in enumerate(tokens):
            scripts.put(Outgoing(token, encode("sql", Urgency(number), b"")))
            scripts.claim("me", LONG, ("sql",))
            scripts.reject("me", [token], "no")
            client.zadd(f"{ROOT}:dead:since", {token: number})
        assert scripts.sweep(rules).dropped == 3
        assert inspector.dead_tokens() == tokens[3:]
        assert inspector.dead_letter_counts() == (2, 3)
        assert [letter.token for letter in inspector.dead_letters()] == tokens[:2:-1]
        assert scripts.sweep(rules).dropped == 0
        assert scripts.drop(tokens) == 2
        assert not client.exists(
            *(f"{ROOT}:{kind}" for kind in ("dead", "dead:since", "dead:causes"))
        )


def test_random_histories_equal_the_model(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        Queues.client = client
        run_state_machine_as_test(
            Queues,
            settings=settings(
                max_examples=60,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
