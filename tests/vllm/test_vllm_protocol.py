"""What the LLM client relies on, against a real vLLM server. No text is ever asserted."""

from __future__ import annotations

import json
import statistics
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from hexgen_celery.errors import ModelUnavailable, RequestCancelled
from hexgen_celery.llm import CancelToken, ChatRequest, Completion, LlmClient
from hexgen_celery.llm.failures import ContextOverflow
from hexgen_celery.profiling_llm import read_facts
from hexgen_celery.settings import LlmSettings
from stages.evaluation import Evaluation
from tests.vllm.serving import (
    BLOCK_TOKENS,
    SEQUENCES,
    TINY_CONTEXT,
    TINY_KV_TOKENS,
    UNFINISHED,
    ServedModel,
    until,
)
from workers.kv_gauge import kv_usage

pytestmark = pytest.mark.vllm
LONG = 1500
LONGEST = 3500
FREE_SECONDS = 2.0
TRIES, ONE_PIECE_SECONDS = 4, 0.02
CHOICE = {
    "type": "object",
    "properties": {"choice": {"enum": [1, 2]}, "reason": {"enum": ["shorter", "more exact"]}},
    "required": ["choice", "reason"],
    "additionalProperties": False,
}


def _gauge(server: LlmClient, name: str) -> float:
    """The sum of a metric over its labels."""
    lines = server.metrics().splitlines()
    found = [line for line in lines if line.startswith((f"vllm:{name}{{", f"vllm:{name} "))]
    assert found, f"no metric vllm:{name}"
    return sum(float(line.rpartition(" ")[2]) for line in found)


def _wait_until_idle(server: LlmClient) -> None:
    until(lambda: _unfinished(server) == 0, 60, "the server is not idle")


def test_an_answer_streams_with_the_servers_own_counts(tiny: ServedModel) -> None:
    with tiny.server() as server:
        seen: list[float] = []
        began = time.monotonic()
        done = server.complete(
            tiny.chat("count", 64), on_first_token=lambda: seen.append(time.monotonic() - began)
        )
        assert len(seen) == 1
        assert seen[0] < done.seconds
        assert done.first_token_seconds < done.seconds
        assert done.output_tokens == 64
        assert done.usage_reported
        assert done.finish_reason == "length"


def test_tokens_are_counted_alike_before_and_after(tiny: ServedModel) -> None:
    text = "How many heroes have blue eyes? " * 20
    with tiny.server() as server:
        counted = server.tokenize(text, tiny.model)
        assert counted is not None
        done = server.complete(tiny.chat(text, 1))
        assert counted < done.input_tokens < counted + 100, "the chat template adds a little"


def test_the_server_says_what_it_is(tiny: ServedModel) -> None:
    facts = read_facts(tiny.url, tiny.model, LlmSettings())
    assert facts.max_model_len == TINY_CONTEXT
    assert facts.block_tokens == BLOCK_TOKENS
    assert facts.kv_tokens == TINY_KV_TOKENS
    with tiny.server() as server:
        version = server.version()
        assert version is not None
        assert not version.startswith("emulated")
        assert server.served() == {tiny.model: TINY_CONTEXT}


def test_this_version_has_the_metrics_that_are_read(tiny: ServedModel) -> None:
    with tiny.server() as server:
        server.complete(tiny.chat("hello", 4))
        usage = kv_usage(server.metrics())
        assert usage is not None
        assert 0 <= usage <= 1
        for name in (
            "num_requests_running",
            "num_requests_waiting",
            "kv_cache_usage_perc",
            "prefix_cache_queries_total",
            "prefix_cache_hits_total",
            "prompt_tokens_total",
            "generation_tokens_total",
            "num_preemptions_total",
            "admission_rejections_total",
            "time_to_first_token_seconds_count",
            "inter_token_latency_seconds_count",
            "e2e_request_latency_seconds_count",
            "request_queue_time_seconds_count",
        ):
            assert _gauge(server, name) >= 0


def test_the_gauge_shows_memory_in_use(tiny: ServedModel) -> None:
    with tiny.server() as server, ThreadPoolExecutor(1) as pool:
        cancel = CancelToken()
        running = _begin(pool, server, tiny.chat("word " * 1000, LONG), cancel)
        until(lambda: (kv_usage(server.metrics()) or 0) > 0, 60, "no memory is in use")
        cancel.set()
        with pytest.raises(RequestCancelled):
            running.result(60)


def test_a_shared_beginning_is_cached_in_whole_blocks(tiny: ServedModel) -> None:
    beginning = "Table hero has the columns id, name, height and weight. " * 60
    with tiny.server() as server:
        first = server.complete(tiny.chat(beginning + "Who is tallest?", 4))
        second = server.complete(tiny.chat(beginning + "Who is heaviest?", 4))
    assert second.cached_tokens > first.cached_tokens
    assert second.cached_tokens % BLOCK_TOKENS == 0
    assert second.cached_tokens >= second.input_tokens - 2 * BLOCK_TOKENS


def test_a_seeded_request_with_a_long_prompt_leaves_the_engine_alive(tiny: ServedModel) -> None:
    """The CPU build would end at it, were prompts computed in chunks (docs/vllm.md)."""
    request = replace(tiny.chat("word " * (TINY_CONTEXT - 200), 8), temperature=0.9, seed=7)
    with tiny.server(retries=0) as server:
        assert server.complete(request).output_tokens == 8
        assert server.complete(request).output_tokens == 8


def test_an_urgent_request_overtakes_what_waits(tiny: ServedModel) -> None:
    """All sequences are taken; of two that wait, the later and more urgent one is begun first.

    On a busy machine both beginnings may reach us in one piece, which tells no order: then again.
    """
    for _ in range(TRIES):
        ahead = _seconds_ahead(tiny)
        if abs(ahead) > ONE_PIECE_SECONDS:
            break
    assert ahead > ONE_PIECE_SECONDS


def _seconds_ahead(tiny: ServedModel) -> float:
    """How long before the relaxed request the urgent one began."""
    begun: dict[str, float] = {}

    def ask(name: str, request: ChatRequest) -> Completion:
        def begin() -> None:
            begun[name] = time.monotonic()

        return server.complete(request, on_first_token=begin)

    with tiny.server() as server, ThreadPoolExecutor(SEQUENCES + 2) as pool:
        _wait_until_idle(server)
        lengths = [LONG // 3, *[LONG] * (SEQUENCES - 1)]
        running = [
            pool.submit(ask, f"running {n}", tiny.chat(f"{n}", tokens, priority=0.0))
            for n, tokens in enumerate(lengths)
        ]
        until(lambda: len(begun) == SEQUENCES, 60, "not all run")
        relaxed = pool.submit(ask, "relaxed", tiny.chat("relaxed", 200, priority=2_000.0))
        until(lambda: _gauge(server, "num_requests_waiting") == 1, 30, "the first does not wait")
        urgent = pool.submit(ask, "urgent", tiny.chat("urgent", 200, priority=1_000.0))
        until(lambda: _gauge(server, "num_requests_waiting") == 2, 30, "the second does not wait")
        for future in (*running, relaxed, urgent):
            future.result(120)
    return begun["relaxed"] - begun["urgent"]


def test_an_answer_keeps_to_a_schema_that_a_stage_reads(tiny: ServedModel) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "choice", "schema": CHOICE}}
    request = replace(tiny.chat("Which?", 200, forced=False), response_format=schema)
    with tiny.server() as server:
        done = server.complete(request)
    assert set(json.loads(done.text)) == {"choice", "reason"}
    choice = Evaluation().read_choice(done.text, 2)
    assert choice is not None
    assert choice.number in (1, 2)


def test_a_closed_connection_frees_its_place(tiny: ServedModel) -> None:
    """The median of three: within two seconds, long before the answer would have ended."""
    with tiny.server() as server, ThreadPoolExecutor(1) as pool:
        _wait_until_idle(server)
        taken = []
        for number in range(3):
            cancel = CancelToken()
            running = _begin(pool, server, tiny.chat(f"a long story {number}", 3000), cancel)
            assert _gauge(server, "num_requests_running") == 1
            cancel.set()
            taken.append(
                until(lambda: _gauge(server, "num_requests_running") == 0, 60, "its place is taken")
            )
            with pytest.raises(RequestCancelled):
                running.result(60)
    assert statistics.median(taken) <= FREE_SECONDS


@pytest.mark.parametrize("too_long", ["prompt", "answer"])
def test_what_does_not_fit_is_a_clear_error(tiny: ServedModel, too_long: str) -> None:
    request = (
        tiny.chat("word " * (TINY_CONTEXT + 100), 4)
        if too_long == "prompt"
        else tiny.chat("hello", TINY_CONTEXT + 1, forced=False)
    )
    with tiny.server() as server, pytest.raises(ContextOverflow) as refused:
        server.complete(request)
    assert str(TINY_CONTEXT) in refused.value.message
    assert "longer context" in refused.value.hint


def test_a_wrong_model_names_the_right_one(tiny: ServedModel) -> None:
    request = replace(tiny.chat("hello", 4), model="no-such-model")
    with tiny.server() as server, pytest.raises(ModelUnavailable) as refused:
        server.complete(request)
    assert "no-such-model" in refused.value.message
    assert tiny.model in refused.value.hint


def test_a_full_server_is_asked_again_later(tiny: ServedModel) -> None:
    """More than it takes at once: the surplus gets 503 and comes back; in the end all are done."""
    with tiny.server(retries=30) as server, ThreadPoolExecutor(2 * UNFINISHED) as pool:
        before = _gauge(server, "admission_rejections_total")
        requests = [tiny.chat(f"{number}", 150) for number in range(2 * UNFINISHED)]
        done = list(pool.map(server.complete, requests))
        assert [each.output_tokens for each in done] == [150] * len(done)
        assert max(each.attempts for each in done) > 1
        assert _gauge(server, "admission_rejections_total") > before


def test_a_full_server_is_named_when_patience_ends(tiny: ServedModel) -> None:
    with (
        tiny.server(retries=30) as patient,
        tiny.server(retries=0) as server,
        ThreadPoolExecutor(UNFINISHED) as pool,
    ):
        _wait_until_idle(server)
        cancel = CancelToken()
        running = [
            pool.submit(patient.complete, tiny.chat(f"{number}", LONGEST), cancel=cancel)
            for number in range(UNFINISHED)
        ]
        until(lambda: _unfinished(server) == UNFINISHED, 60, "the server is not full")
        with pytest.raises(ModelUnavailable, match="503"):
            server.complete(tiny.chat("one more", 4))
        cancel.set()
        for future in running:
            with pytest.raises(RequestCancelled):
                future.result(60)


def _unfinished(server: LlmClient) -> float:
    return _gauge(server, "num_requests_running") + _gauge(server, "num_requests_waiting")


def _begin(
    pool: ThreadPoolExecutor, server: LlmClient, request: ChatRequest, cancel: CancelToken
) -> Future[Completion]:
    """The request, once its first token has come."""
    begun = threading.Event()
    future = pool.submit(server.complete, request, on_first_token=begun.set, cancel=cancel)
    assert begun.wait(60), "no first token"
    return future
