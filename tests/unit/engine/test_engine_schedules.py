"""The engine against schedules worked out by hand. Times in the comments are in seconds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hexgen_celery.core.engine import Engine, EngineEvent, EngineRequest
from hexgen_celery.core.prefix import PrefixPart
from tests.small_profile import small_profile

SIMPLE = small_profile(
    name="simple",
    decode_base=0.1,
    decode_per_sequence=0.01,
    kv_tokens=4000,
    max_model_len=3000,
    max_batched_tokens=2000,
    block_tokens=4,
)

SHARED = (PrefixPart("template", 300), PrefixPart("schema", 502))


def drain(engine: Engine) -> list[EngineEvent]:
    events = []
    while (at := engine.next_event_at()) is not None:
        events += engine.advance(at)
    return events


def times(events: list[EngineEvent]) -> dict[tuple[str, str], object]:
    return {(e.request_id, str(e.kind)): pytest.approx(e.at) for e in events}


def test_one_request_alone() -> None:
    engine = Engine(SIMPLE)
    engine.submit(EngineRequest("a", 100, 3), 0.0)
    # Prefill 0.1, then two decode steps of 0.11.
    assert times(drain(engine)) == {("a", "first_token"): 0.1, ("a", "finished"): 0.32}


def test_a_short_prefill_costs_at_least_the_reading_of_the_weights() -> None:
    engine = Engine(SIMPLE)
    engine.submit(EngineRequest("a", 10, 1), 0.0)
    assert times(drain(engine)) == {("a", "first_token"): 0.1, ("a", "finished"): 0.1}


def test_a_step_of_prefill_alone_may_cost_more_than_its_tokens() -> None:
    engine = Engine(replace(SIMPLE, prefill_base=0.04))
    engine.submit(EngineRequest("a", 100, 2), 0.0)
    engine.submit(EngineRequest("b", 50, 1), 0.14)
    # 0.04 + 0.1; then b's prompt joins a's decode step, which has its own base: 0.11 + 0.05.
    seen = times(drain(engine))
    assert (seen["a", "first_token"], seen["a", "finished"]) == (0.14, 0.3)


def test_decode_slows_with_context() -> None:
    engine = Engine(replace(SIMPLE, decode_per_context_token=0.001))
    engine.submit(EngineRequest("a", 10, 4), 0.0)
    # 0.1, then steps over 11, 12 and 13 tokens: 0.121 + 0.122 + 0.123.
    assert times(drain(engine))["a", "finished"] == 0.466


def test_prefill_slows_with_its_length() -> None:
    engine = Engine(replace(SIMPLE, prefill_quadratic=1e-6, max_batched_tokens=600))
    engine.submit(EngineRequest("a", 1000, 1), 0.0)
    # 600 tokens at mean context 300, then 400 at mean context 800.
    assert times(drain(engine))["a", "finished"] == 1.0 + 0.18 + 0.32


def test_two_overlapping_requests_share_steps() -> None:
    engine = Engine(SIMPLE)
    engine.submit(EngineRequest("a", 100, 5), 0.0)
    engine.submit(EngineRequest("b", 50, 2), 0.15)
    # a: prefill to 0.10, alone to 0.21; both: 0.11 + 0.05 to 0.37; 0.12 to 0.49; a alone to 0.60.
    assert times(drain(engine)) == {
        ("a", "first_token"): 0.1,
        ("b", "first_token"): 0.37,
        ("b", "finished"): 0.49,
        ("a", "finished"): 0.6,
    }


def test_requests_of_one_moment_share_the_first_step_even_when_asked_in_between() -> None:
    engine = Engine(SIMPLE)
    engine.submit(EngineRequest("a", 100, 1), 1.0)
    assert engine.next_event_at() == pytest.approx(1.1)
    engine.submit(EngineRequest("b", 100, 1), 1.0)
    assert times(drain(engine))["b", "finished"] == 1.2


def test_a_long_prompt_is_chunked_around_decoding() -> None:
    engine = Engine(replace(SIMPLE, max_batched_tokens=100))
    engine.submit(EngineRequest("a", 30, 10), 0.0)
    engine.submit(EngineRequest("b", 250, 1), 0.05)
    # a: 0.1. Chunks of 99, 99 and 52 beside a's decode: 0.309, 0.518, 0.680. a's last six: 0.66.
    events = drain(engine)
    assert times(events) == {
        ("a", "first_token"): 0.1,
        ("b", "first_token"): 0.68,
        ("b", "finished"): 0.68,
        ("a", "finished"): 1.34,
    }


def test_the_less_urgent_is_preempted_and_recomputed_when_memory_runs_out() -> None:
    engine = Engine(replace(SIMPLE, kv_tokens=40))
    engine.submit(EngineRequest("a", 16, 9), 0.0)
    engine.submit(EngineRequest("b", 16, 9), 0.0)
    # Ten blocks: full after the first of four common steps of 0.12. b leaves at 0.58 with 5 tokens;
    # its 21 tokens need six blocks, which a gives back at 0.58 + 4 · 0.11 = 1.02.
    # b: prefill again to 1.12, three more tokens to 1.45.
    events = drain(engine)
    assert times(events) == {
        ("a", "first_token"): 0.1,
        ("b", "first_token"): 0.1,
        ("b", "preempted"): 0.58,
        ("a", "finished"): 1.02,
        ("b", "finished"): 1.45,
    }
    assert [str(e.kind) for e in events].count("first_token") == 2
    assert engine.counters.preemptions == 1
    assert engine.counters.prompt_tokens == 32
    assert engine.counters.generation_tokens == 18


def test_memory_pressure_spares_the_more_urgent() -> None:
    engine = Engine(replace(SIMPLE, kv_tokens=40))
    engine.submit(EngineRequest("a", 16, 9, priority=2.0), 0.0)
    engine.submit(EngineRequest("b", 16, 9, priority=1.0), 0.0)
    preempted = [e.request_id for e in drain(engine) if e.kind == "preempted"]
    assert preempted == ["a"]


def test_a_shared_beginning_is_computed_once_in_whole_blocks() -> None:
    engine = Engine(SIMPLE)
    engine.submit(EngineRequest("a", 1000, 1, SHARED), 0.0)
    engine.submit(EngineRequest("b", 1000, 1, SHARED), 2.0)
    events = drain(engine)
    # 802 shared tokens are 200 whole blocks of 4: 200 tokens are left to compute.
    assert times(events)["a", "finished"] == 1.0
    assert times(events)["b", "finished"] == 2.2
    assert [e.cached_tokens for e in events if e.kind == "finished"] == [0, 800]
    assert engine.counters.prefix_hits == 800
    assert engine.counters.prefix_queries == 2000
    assert engine.cached_tokens(SHARED) == 800


def test_the_same_schema_behind_another_template_is_not_shared() -> None:
    engine = Engine(SIMPLE)
    engine.submit(EngineRequest("a", 1000, 1, SHARED), 0.0)
    engine.advance(1.5)
    assert engine.cached_tokens((PrefixPart("other", 300), SHARED[1])) == 0
    assert engine.cached_tokens(SHARED[:1]) == 300
    assert Engine(SIMPLE, prefix_cache=False).cached_tokens(SHARED) == 0


def test_running_requests_share_the_blocks_of_their_common_beginning() -> None:
    engine = Engine(SIMPLE)
    engine.submit(EngineRequest("a", 1000, 50, SHARED), 0.0)
    engine.submit(EngineRequest("b", 1000, 50, SHARED), 0.0)
    engine.advance(1.2)
    assert engine.running == 2
    # 200 blocks together and 50 each, before anything is generated beyond the first token.
    assert engine.kv_used_tokens == 4 * (200 + 50 + 50)


def test_the_least_recently_used_beginning_is_evicted_from_its_end() -> None:
    engine = Engine(replace(SIMPLE, kv_tokens=2000))
    old, new = (PrefixPart("old", 800),), (PrefixPart("new", 800),)
    engine.submit(EngineRequest("a", 804, 1, old), 0.0)
    engine.submit(EngineRequest("b", 804, 1, new), 10.0)
    engine.advance(20.0)
    assert (engine.cached_tokens(old), engine.cached_tokens(new)) == (800, 800)
    # 500 blocks: 402 hold a and b. 500 more tokens need 125: 98 blank, 1 of a's own, 26 of old.
    engine.submit(EngineRequest("c", 500, 1), 20.0)
    engine.advance(30.0)
    assert (engine.cached_tokens(old), engine.cached_tokens(new)) == (800 - 4 * 26, 800)


def test_priority_reorders_those_who_wait() -> None:
    for priority, expected in ((True, ["a", "c", "b"]), (False, ["a", "b", "c"])):
        engine = Engine(replace(SIMPLE, max_sequences=1), priority=priority)
        engine.submit(EngineRequest("a", 100, 5), 0.0)
        engine.submit(EngineRequest("b", 100, 5, priority=5.0), 0.1)
        engine.submit(EngineRequest("c", 100, 5, priority=1.0), 0.2)
        assert (engine.running, engine.waiting) == (1, 2)
        assert [e.request_id for e in drain(engine) if e.kind == "finished"] == expected


def test_an_aborted_request_leaves_at_the_end_of_the_step() -> None:
    engine = Engine(SIMPLE)
    engine.submit(EngineRequest("a", 100, 9), 0.0)
    engine.submit(EngineRequest("b", 100, 9), 0.0)
    assert engine.abort("b", 0.25)
    assert not engine.abort("b", 0.26)
    assert engine.running == 1
    # Both until 0.32, then a alone: 0.32 + 7 · 0.11.
    assert times(drain(engine))["a", "finished"] == 1.09
    assert engine.kv_used_tokens == 0


def test_an_abort_at_the_moment_a_step_begins_keeps_the_request_out_of_it() -> None:
    engine = Engine(SIMPLE)
    engine.submit(EngineRequest("a", 50, 9), 0.0)
    engine.submit(EngineRequest("b", 50, 9), 0.0)
    engine.advance(0.1)
    assert engine.next_event_at() == pytest.approx(0.1 + 8 * 0.12)
    assert engine.abort("b", 0.1)
    assert times(drain(engine))["a", "finished"] == 0.1 + 8 * 0.11


def test_an_abort_during_the_prefill_of_a_long_prompt() -> None:
    engine = Engine(replace(SIMPLE, max_batched_tokens=100))
    engine.submit(EngineRequest("a", 500, 9, SHARED[:1]), 0.0)
    engine.submit(EngineRequest("b", 50, 1), 0.0)
    assert engine.advance(0.15) == []
    assert engine.abort("a", 0.15)
    # The second chunk ends at 0.2, then b; the 200 tokens computed stay in the cache.
    assert times(drain(engine)) == {("b", "first_token"): 0.3, ("b", "finished"): 0.3}
    assert engine.cached_tokens(SHARED[:1]) == 200


def test_after_a_preemption_nobody_joins_the_same_step() -> None:
    engine = Engine(replace(SIMPLE, kv_tokens=40))
    engine.submit(EngineRequest("a", 16, 9), 0.0)
    engine.submit(EngineRequest("b", 16, 9), 0.0)
    preempted_at = 0.1 + 4 * 0.12
    events = engine.advance(preempted_at + 1e-9)
    assert [str(e.kind) for e in events][-1] == "preempted"
    assert engine.waiting == 1
    engine.submit(EngineRequest("c", 4, 1, priority=-1.0), preempted_at + 1e-9)
    # a's step of 0.11, then c in a's next one: 0.11 and 4 tokens of prefill.
    assert times(drain(engine))["c", "finished"] == preempted_at + 0.11 + 0.114


def test_a_waiting_request_can_be_aborted() -> None:
    engine = Engine(replace(SIMPLE, max_sequences=1))
    engine.submit(EngineRequest("a", 100, 2), 0.0)
    engine.submit(EngineRequest("b", 100, 2), 0.0)
    assert engine.advance(0.05) == []
    assert engine.abort("b", 0.05)
    assert engine.waiting == 0
    assert {e.request_id for e in drain(engine)} == {"a"}


def test_progress_is_visible_between_events() -> None:
    engine = Engine(SIMPLE)
    engine.submit(EngineRequest("a", 100, 9), 0.0)
    engine.advance(0.05)
    assert engine.generated("a", 0.05) == 0
    engine.advance(0.33)
    assert engine.generated("a", 0.33) == 3
    assert engine.counters.generation_tokens == 3
    assert engine.counters.busy_seconds == pytest.approx(0.33)
    engine.advance(9.0)
    assert engine.counters.busy_seconds == pytest.approx(0.1 + 8 * 0.11)
    with pytest.raises(KeyError):
        engine.generated("a", 9.0)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (EngineRequest("x", 0, 5), "input_tokens"),
        (EngineRequest("x", 5, 0), "output_tokens"),
        (EngineRequest("x", 2990, 20), "model's 3000"),
        (EngineRequest("x", 1500, 1000), "KV memory"),
        (EngineRequest("a", 5, 5), "already"),
    ],
)
def test_what_can_never_be_served_is_refused(request_: EngineRequest, message: str) -> None:
    engine = Engine(replace(SIMPLE, kv_tokens=2000))
    engine.submit(EngineRequest("a", 10, 5), 0.0)
    with pytest.raises(ValueError, match=message):
        engine.submit(request_, 0.0)
