"""The emulated instance over HTTP: vLLM's routes, streams, errors, metrics, and its program."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hexgen_celery.llm import ChatRequest, LlmClient
from tests.integration.emulator.running_server import (
    MODEL,
    SMALL,
    Pace,
    RunningServer,
    client_of,
    eventually,
    run_emulated,
)
from workers.emulation.faults import FaultPlan
from workers.emulation.replay import ReplayRecord, ReplayStore

MESSAGES = [{"role": "user", "content": "x" * 400}]
VLLM_NAMES = {
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:prefix_cache_queries",
    "vllm:prefix_cache_hits",
    "vllm:prompt_tokens",
    "vllm:generation_tokens",
    "vllm:num_preemptions",
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds",
    "vllm:request_decode_time_seconds",
    "vllm:cache_config_info",
}


def _send(url: str, body: Any = None) -> tuple[int, bytes, str]:
    """Status, body and the emulated mark of one exchange; POST where there is a body."""

    async def send() -> tuple[int, bytes, str]:
        async with aiohttp.ClientSession() as http:
            call = http.get(url) if body is None else http.post(url, json=body)
            async with call as response:
                return response.status, await response.read(), response.headers["X-Emulated"]

    return asyncio.run(send())


@asynccontextmanager
async def _posted(url: str, body: Any) -> AsyncIterator[aiohttp.ClientResponse]:
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{url}/v1/chat/completions", json=body) as response,
    ):
        yield response


def _chat(url: str, **fields: Any) -> tuple[int, Any]:
    body = {"model": MODEL, "messages": MESSAGES} | fields
    status, answer, mark = _send(f"{url}/v1/chat/completions", body)
    assert mark == "true"
    return status, json.loads(answer)


def test_an_answer_that_is_not_streamed(instant: RunningServer) -> None:
    status, answer = _chat(instant.url)
    assert status == 200
    assert answer["choices"][0]["message"]["content"].startswith("[emulated filler")
    assert answer["usage"]["prompt_tokens"] == 100
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    assert answer["system_fingerprint"] == "emulated-filler"


def test_text_completions(instant: RunningServer) -> None:
    body = {"model": MODEL, "prompt": "12345678", "max_tokens": 3}
    _, raw, _ = _send(f"{instant.url}/v1/completions", body)
    answer = json.loads(raw)
    assert answer["object"] == "text_completion"
    assert len(answer["choices"][0]["text"]) == 12
    _, raw, _ = _send(f"{instant.url}/v1/completions", body | {"stream": True})
    assert raw.endswith(b"data: [DONE]\n\n")
    assert b'"usage"' not in raw


def test_the_stream_is_in_openais_form(instant: RunningServer) -> None:
    body = {"model": MODEL, "messages": MESSAGES, "stream": True}
    body["stream_options"] = {"include_usage": True}
    _, raw, _ = _send(f"{instant.url}/v1/chat/completions", body)
    *events, done = [line[6:] for line in raw.decode().splitlines() if line.startswith("data: ")]
    chunks = [json.loads(event) for event in events]
    assert done == "[DONE]"
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 8
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_a_recorded_answer_is_streamed_in_pieces_and_whole() -> None:
    store, text = ReplayStore(), "SELECT 'é', 1 FROM superhero -- " + "x" * 200
    store.add(("q", "candidate_generation", "candidate"), "1", ReplayRecord(text))
    metadata = {"question": "q", "stage": "candidate_generation", "step": "candidate", "index": "1"}
    pieces: list[bytes] = []

    async def read(url: str) -> None:
        body = {"model": MODEL, "messages": MESSAGES, "stream": True, "metadata": metadata}
        async with _posted(url, body) as response:
            pieces.extend([piece async for piece in response.content.iter_any()])

    with run_emulated(Pace(profile=SMALL, replay=store)) as server:
        asyncio.run(read(server.url))
    events = [line[6:] for line in b"".join(pieces).splitlines() if line.startswith(b"data: {")]
    deltas = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in events]
    assert "".join(deltas) == text
    assert len([delta for delta in deltas if delta]) > 3


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"model": "other"}, 404, "model"),
        ({"max_tokens": 5000}, 400, "max_tokens"),
        ({"messages": [{"role": "user", "content": "x" * 20_000}]}, 400, "input_tokens"),
        ({"n": 2}, 400, "n"),
    ],
)
def test_errors_are_vllms(
    instant: RunningServer, fields: dict[str, Any], status: int, param: str
) -> None:
    answered, body = _chat(instant.url, **fields)
    assert answered == status
    assert body["error"]["code"] == status
    assert body["error"]["param"] == param


def test_what_exceeds_the_memory_is_refused() -> None:
    with run_emulated(Pace(profile=replace(SMALL, kv_tokens=64))) as server:
        status, body = _chat(server.url)
    assert (status, body["error"]["param"]) == (400, "input_tokens")


def test_the_other_routes(instant: RunningServer) -> None:
    assert _send(f"{instant.url}/health")[0] == 200
    assert json.loads(_send(f"{instant.url}/version")[1])["version"].startswith("emulated-")
    assert json.loads(_send(f"{instant.url}/load")[1]) == {"server_load": 0}
    models = json.loads(_send(f"{instant.url}/v1/models")[1])
    assert models["data"][0]["id"] == MODEL
    assert models["data"][0]["max_model_len"] == 4096
    tokens = json.loads(_send(f"{instant.url}/tokenize", {"prompt": "12345"})[1])
    assert (tokens["count"], tokens["max_model_len"]) == (2, 4096)


def test_strange_requests_get_json_errors(instant: RunningServer) -> None:
    assert _send(f"{instant.url}/tokenize", ["text"])[0] == 400
    status, body, _ = _send(f"{instant.url}/nowhere")
    assert status == 404
    assert json.loads(body)["error"]["code"] == 404


def test_metrics_have_vllms_names_and_count() -> None:
    metadata = {"prefix": "template:64,schema:256", "input_tokens": "400"}
    with run_emulated(Pace(profile=SMALL, speed=50)) as server:
        for _ in range(2):
            _, answer = _chat(server.url, metadata=metadata, max_tokens=10)
        _, raw, _ = _send(f"{server.url}/metrics")
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 320}
    families = {family.name: family for family in text_string_to_metric_families(raw.decode())}
    assert set(families) >= VLLM_NAMES
    assert families["emulator:busy_seconds"].samples[0].value > 0
    for family in families.values():
        for sample in family.samples:
            assert (sample.labels["engine"], sample.labels["model_name"]) == ("0", MODEL)
    values = {sample.name: sample.value for f in families.values() for sample in f.samples}
    assert values["vllm:prompt_tokens_total"] == 800
    assert values["vllm:prefix_cache_hits_total"] == 320
    assert values["vllm:generation_tokens_total"] == 16
    assert values["vllm:num_requests_running"] == 0
    assert values["vllm:e2e_request_latency_seconds_count"] == 2
    config = families["vllm:cache_config_info"].samples[0].labels
    assert (config["block_size"], config["kv_cache_size_tokens"]) == ("16", "16384")


def test_a_disconnected_client_frees_its_slot() -> None:
    async def leave_early(url: str) -> None:
        body = {"model": MODEL, "messages": MESSAGES, "max_tokens": 3000, "min_tokens": 3000}
        body |= {"ignore_eos": True, "stream": True}
        async with _posted(url, body) as response:
            await response.content.readany()

    with run_emulated(Pace(profile=SMALL)) as server:
        asyncio.run(leave_early(server.url))
        emulated = server.emulated
        assert emulated is not None
        eventually(lambda: emulated.aborted == 1 and emulated.load == 0)


def test_injected_cuts_end_connections() -> None:
    body = {"model": MODEL, "messages": MESSAGES, "stream": True, "max_tokens": 50}
    pace = Pace(profile=SMALL, faults=FaultPlan(cut_rate=1.0))
    with run_emulated(pace) as server, pytest.raises(aiohttp.ClientError):
        _send(f"{server.url}/v1/chat/completions", body)


def test_real_times_follow_the_profile() -> None:
    request = ChatRequest(MODEL, (("user", "x" * 1200),), max_tokens=50, forced_output_tokens=50)
    with client_of(Pace(profile=SMALL)) as client:
        answer = client.complete(request)
    prefill, decode = 0.3, 49 * 0.011
    assert answer.first_token_seconds >= prefill
    assert answer.seconds >= prefill + decode
    assert answer.output_tokens == 50


def _program(*options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "workers.emulator", "--model", MODEL, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_program_serves_a_shipped_profile_until_it_is_stopped(tmp_path: Path) -> None:
    place = {"question": "q", "stage": "chat", "step": "chat", "index": "1"}
    (tmp_path / "replay.jsonl").write_text(json.dumps(place | {"completion": "recorded"}))
    options = ("--profile", "a6000-x4-llama-3.1-70b", "--speed", "100", "--replay", str(tmp_path))
    with _program(*options) as process:
        try:
            assert process.stdout is not None
            with LlmClient(process.stdout.readline().strip()) as client:
                client.check(MODEL)
                request = ChatRequest(MODEL, (("user", "hi"),), max_tokens=20, metadata=place)
                assert client.complete(request).text == "recorded"
        finally:
            process.terminate()
        assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ((), "--profile"),
        (("--profile", "nowhere"), "nowhere"),
        (("--constant-seconds", "0", "--replay", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--constant-seconds", "0", "--port", "1", "--host", "256.0.0.1"), "256.0.0.1"),
    ],
)
def test_a_wrong_command_line_is_explained(options: tuple[str, ...], named: str) -> None:
    with _program(*options) as process:
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert named in errors
    assert "Traceback" not in errors
