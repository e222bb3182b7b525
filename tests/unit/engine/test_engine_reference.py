"""The engine against a slow reference, over random workloads, and its invariants."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from operator import itemgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexgen_celery.core.engine import Engine, EngineEvent, EngineRequest
from hexgen_celery.core.prefix import PrefixPart
from tests.small_profile import small_profile
from tests.unit.engine.reference_engine import ReferenceEngine

PROFILE = small_profile(
    name="test",
    prefill_quadratic=1e-6,
    decode_base=0.05,
    decode_per_sequence=0.002,
    decode_per_context_token=1e-5,
    kv_tokens=256,
    max_sequences=6,
    max_model_len=250,
    max_batched_tokens=64,
    block_tokens=8,
)

PARTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([3, 8, 21, 40])), min_size=0, max_size=3
)


@st.composite
def workloads(draw: st.DrawFn) -> list[tuple[float, EngineRequest]]:
    count = draw(st.integers(1, 14))
    arrivals = []
    at = 0.0
    for number in range(count):
        at += draw(st.sampled_from([0.0, 0.01, 0.173, 0.9, 3.0]))
        prefix = tuple(PrefixPart(key, tokens) for key, tokens in draw(PARTS))
        shared = sum(part.tokens for part in prefix)
        extra = draw(st.sampled_from([0, 1, 5, 30, 100]))
        request = EngineRequest(
            request_id=f"r{number}",
            input_tokens=max(1, min(shared + extra, 150)),
            output_tokens=draw(st.integers(1, 90)),
            prefix=prefix,
            priority=draw(st.sampled_from([0.0, 1.0, 2.0])),
        )
        arrivals.append((at, request))
    return arrivals


def play(engine: Engine, arrivals: list[tuple[float, EngineRequest]]) -> list[EngineEvent]:
    events = []
    for at, request in arrivals:
        events += engine.advance(at)
        engine.submit(request, at)
    while (at_next := engine.next_event_at()) is not None:
        events += engine.advance(at_next)
    return events


@settings(max_examples=120, deadline=None)
@given(workloads(), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.03, 0.1]))
def test_the_engine_equals_the_step_by_step_reference(
    arrivals: list[tuple[float, EngineRequest]],
    prefix_cache: bool,
    priority: bool,
    prefill_base: float,
) -> None:
    profile = replace(PROFILE, prefill_base=prefill_base)
    reference = ReferenceEngine(profile, prefix_cache, priority)
    expected = reference.run(arrivals)
    events = play(Engine(profile, prefix_cache=prefix_cache, priority=priority), arrivals)
    got = sorted(
        ((e.request_id, str(e.kind), e.cached_tokens, e.at) for e in events), key=itemgetter(0)
    )
    want = sorted(
        ((name, kind, cached, at) for kind, name, at, cached in expected), key=itemgetter(0)
    )
    assert [seen[:3] for seen in got] == [seen[:3] for seen in want]
    assert [seen[3] for seen in got] == pytest.approx([seen[3] for seen in want], rel=1e-9)


@settings(max_examples=50, deadline=None)
@given(workloads(), st.floats(0.003, 0.4))
def test_many_small_advances_equal_one_and_memory_is_never_exceeded(
    arrivals: list[tuple[float, EngineRequest]], tick: float
) -> None:
    expected = play(Engine(PROFILE), arrivals)
    engine = Engine(PROFILE)
    events, now, pending = [], 0.0, list(arrivals)
    while pending or engine.running or engine.waiting:
        horizon = now + tick
        while pending and pending[0][0] <= horizon:
            at, request = pending.pop(0)
            engine.submit(request, at)
        now = horizon
        events += engine.advance(now)
        assert 0 <= engine.kv_used_tokens <= engine.kv_capacity_tokens
        assert engine.kv_used_tokens + engine.kv_cached_tokens <= engine.kv_capacity_tokens
        assert engine.running <= PROFILE.max_sequences
    assert events == expected


@settings(max_examples=50, deadline=None)
@given(workloads(), st.data())
def test_every_request_finishes_once_or_is_aborted(
    arrivals: list[tuple[float, EngineRequest]], data: st.DataObject
) -> None:
    engine = Engine(PROFILE)
    events: list[EngineEvent] = []
    aborted = set()
    for at, request in arrivals:
        events += engine.advance(at)
        engine.submit(request, at)
        if data.draw(st.booleans()):
            victim = data.draw(st.sampled_from(arrivals))[1].request_id
            if engine.abort(victim, at + data.draw(st.sampled_from([0.0, 0.02, 0.5]))):
                aborted.add(victim)
    while (at_next := engine.next_event_at()) is not None:
        events += engine.advance(at_next)
    finished = Counter(e.request_id for e in events if e.kind == "finished")
    assert set(finished) | aborted == {request.request_id for _, request in arrivals}
    assert not set(finished) & aborted
    assert set(finished.values()) <= {1}
    assert (engine.running, engine.waiting, engine.kv_used_tokens) == (0, 0, 0)
    assert [e.at for e in events] == sorted(e.at for e in events)
