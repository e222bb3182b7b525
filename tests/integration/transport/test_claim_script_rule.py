"""The claim script equals the pure rule of core/order/claim.py, over deep queues."""

from __future__ import annotations

import math
import time

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hexgen_celery.core.admission import Allowance
from hexgen_celery.core.order.claim import ClaimRules
from hexgen_celery.transport.messages import Claimed, Outgoing, Urgency, encode, token_of
from hexgen_celery.transport.scripts import QueueScripts
from tests.integration.transport.queue_model import QueueModel

pytestmark = pytest.mark.integration

ROOT = "{rule}:queue"
QUEUES = ("gpu.a100.x", "gpu.a100.x.1")

entries = st.lists(
    st.tuples(
        st.sampled_from(QUEUES),
        st.integers(0, 8) | st.sampled_from([4_000_000_000, 5_000_000_000]),
        st.sampled_from([-1000.0, 1000.0, math.inf]),
        st.integers(0, 8),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=25,
)
rules = st.builds(ClaimRules, st.integers(1, 4), st.integers(0, 3), st.integers(0, 4))
allowances = st.lists(
    st.builds(Allowance, st.integers(0, 9), st.integers(0, 9), st.integers(0, 2)),
    min_size=1,
    max_size=25,
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(entries, rules, allowances, st.sampled_from([QUEUES, QUEUES[:1], QUEUES[::-1]]))
def test_every_claim_takes_what_the_rule_says(
    redis_url: str,
    entries: list[tuple[str, int, float, int, int, int]],
    rules: ClaimRules,
    allowances: list[Allowance],
    queues: tuple[str, ...],
) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
        scripts, model = QueueScripts(client, ROOT), QueueModel(rules, 9)
        for number, (queue, key, moment, since, kv_tokens, prefill) in enumerate(entries):
            urgency = Urgency(key, time.time() + moment, since, kv_tokens, prefill)
            token = token_of(str(number))
            model.put(token, queue, urgency)
            scripts.put(Outgoing(token, encode(queue, urgency, b"")))
        for allowance in allowances:
            expected = model.claim("me", queues, allowance)
            outcome = scripts.claim("me", 100.0, queues, allowance, rules)
            taken = outcome.message.token if isinstance(outcome, Claimed) else None
            assert taken == (expected.token if expected else None)


def test_a_request_is_demoted_once_its_moment_passes_while_it_waits(redis_url: str) -> None:
    """Its latest start lay ahead when it was put, so that nobody watched it then."""
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
        scripts = QueueScripts(client, ROOT)
        now = time.time()
        urgencies = {
            "dies": Urgency(now + 0.2, now + 0.4),
            "lives": Urgency(now + 0.3, now + 100.0),
            "later": Urgency(now + 50.0, now + 100.0),
        }
        for name, urgency in urgencies.items():
            scripts.put(Outgoing(token_of(name), encode("sql", urgency, b"")))
        none_fits = Allowance(0, 0, 0)
        for _ in range(6):
            scripts.claim("me", 100.0, ("sql",), none_fits)
            time.sleep(0.1)
        waiting = scripts.peek("sql", 10)
        assert [(message.token, demoted) for message, demoted in waiting] == [
            (token_of("lives"), False),
            (token_of("later"), False),
            (token_of("dies"), True),
        ]


def test_a_mass_expiry_is_spread_over_claims(redis_client: redis.Redis, redis_url: str) -> None:
    """No single claim may hold Redis up; the oldest demoted one is found soon all the same."""
    with redis.Redis.from_url(redis_url) as client:
        scripts = QueueScripts(client, ROOT)
        for number in range(1200):
            urgency = Urgency(number, 1.0 + number, since=-number)
            scripts.put(Outgoing(token_of(str(number)), encode("sql", urgency, b"")))
        for _ in range(3):
            claimed = scripts.claim("me", 100.0, ("sql",))
        assert isinstance(claimed, Claimed)
        assert claimed.message.urgency.key == 1199
        assert redis_client.zcard(f"{ROOT}:sql:waiting") == 0


def test_a_new_rank_does_not_begin_the_patience_anew(redis_url: str) -> None:
    """Ranks follow the estimates every few seconds; a large request must get its turn all the
    same."""
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
        scripts, rules = QueueScripts(client, ROOT), ClaimRules(every=100, patience=2, depth=4)
        room = Allowance(kv_tokens=5, prefill_tokens=5, sequences=1)
        names = ["large", *(f"small {number}" for number in range(4))]
        for rank, name in enumerate(names):
            urgency = Urgency(4e9 + rank, kv_tokens=9 if name == "large" else 1)
            scripts.put(Outgoing(token_of(name), encode("sql", urgency, b"")))
        taken = []
        for moment in range(4):
            claimed = scripts.claim("me", 100.0, ("sql",), room, rules)
            taken.append(isinstance(claimed, Claimed))
            scripts.rescore(token_of("large"), 4e9 - moment)
        assert taken == [True, True, False, False]
