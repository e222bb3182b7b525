"""The LLM client against real sockets: answers, retries, refusals, cancellation."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from pydantic import SecretStr
from structlog.testing import capture_logs

from hexgen_celery.errors import ModelRefused, ModelUnavailable, RequestCancelled
from hexgen_celery.llm import CancelToken, ChatRequest, LlmClient, session
from hexgen_celery.llm.failures import ContextOverflow
from hexgen_celery.settings import LlmSettings
from tests.integration.emulator.running_server import (
    MODEL,
    QUICK_RETRIES,
    SMALL,
    Pace,
    RunningServer,
    app_with,
    client_of,
    client_to,
    eventually,
    run_app,
    run_emulated,
)
from workers.emulation.faults import FaultPlan

ASK = ChatRequest(MODEL, (("system", "be brief"), ("user", "how many heroes?")), max_tokens=32)
WHOLE_ANSWER = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}
PROMPT_DEADLINE_SECONDS = 20.0


@pytest.fixture
def client(instant: RunningServer) -> Iterator[LlmClient]:
    with LlmClient(instant.url, QUICK_RETRIES) as client:
        yield client


def _chunk(content: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


async def _streaming(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


def _refusal(client: LlmClient) -> ModelRefused:
    with pytest.raises(ModelRefused) as caught:
        client.complete(ASK)
    return caught.value


def test_an_answer_comes_with_usage_and_times(instant: RunningServer, client: LlmClient) -> None:
    first: list[float] = []
    answer = client.complete(ASK, on_first_token=lambda: first.append(time.perf_counter()))
    assert answer.text.startswith("[emulated filler")
    assert answer.input_tokens == 6
    assert answer.output_tokens == 8
    assert answer.finish_reason == "stop"
    assert answer.attempts == 1
    assert answer.server == instant.url
    assert answer.usage_reported
    assert len(first) == 1
    assert 0 < answer.first_token_seconds <= answer.seconds


def test_the_base_url_may_end_with_v1(instant: RunningServer) -> None:
    with LlmClient(instant.url + "/v1/") as client:
        assert client.complete(ASK).output_tokens == 8
        assert client.server == instant.url


def test_forced_lengths_reach_the_server(client: LlmClient) -> None:
    answer = client.complete(replace(ASK, forced_output_tokens=21))
    assert answer.output_tokens == 21
    assert len(answer.text) == 84
    assert answer.finish_reason == "length"


def test_the_small_questions_have_answers(client: LlmClient) -> None:
    assert client.models() == [MODEL]
    assert client.tokenize("12345678") == 2
    assert (client.version() or "").startswith("emulated")
    client.check(MODEL)


def test_a_model_that_is_not_served_is_named_with_those_that_are(client: LlmClient) -> None:
    for attempt in (
        lambda: client.check("other"),
        lambda: client.complete(replace(ASK, model="other")),
    ):
        with pytest.raises(ModelUnavailable) as caught:
            attempt()
        assert "other" in str(caught.value)
        assert MODEL in str(caught.value)


def test_an_over_long_request_is_told_apart(client: LlmClient) -> None:
    with pytest.raises(ContextOverflow) as caught:
        client.complete(replace(ASK, max_tokens=5000))
    assert caught.value.field == "max_tokens"


def test_an_unreachable_server_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with LlmClient(url) as client:
        with pytest.raises(ModelUnavailable) as caught:
            client.complete(ASK)
        assert url in str(caught.value)
        assert "tried 4 times" in str(caught.value)
        with pytest.raises(ModelUnavailable):
            client.check(MODEL)
        assert client.version() is None
        assert client.tokenize("text") is None


def test_injected_faults_are_retried_to_success() -> None:
    plan = FaultPlan(fail_rate=0.5, status=429, seed=1)
    settings = QUICK_RETRIES.model_copy(update={"retries": 30})
    with client_of(Pace(faults=plan), settings) as client:
        attempts = [client.complete(ASK).attempts for _ in range(20)]
    assert max(attempts) > 1


def test_a_server_that_keeps_failing_is_given_up() -> None:
    plan = FaultPlan(fail_rate=1.0, status=503)
    with client_of(Pace(faults=plan)) as client, pytest.raises(ModelUnavailable) as caught:
        client.complete(ASK)
    assert "503" in str(caught.value)
    assert "tried 4 times" in str(caught.value)


def test_retry_after_is_waited_for() -> None:
    calls: list[float] = []

    async def busy_once(request: web.Request) -> web.StreamResponse:
        calls.append(time.monotonic())
        if len(calls) == 1:
            return web.json_response({}, status=429, headers={"Retry-After": "0.3"})
        return web.json_response(WHOLE_ANSWER)

    with client_to(busy_once) as client:
        answer = client.complete(ASK)
    assert answer.attempts == 2
    assert not answer.usage_reported
    assert answer.output_tokens == 1
    assert calls[1] - calls[0] >= 0.3


def test_a_server_that_wants_an_hour_is_given_up_at_once() -> None:
    plan = FaultPlan(fail_rate=1.0, status=503, retry_after=3600)
    with client_of(Pace(faults=plan)) as client, pytest.raises(ModelUnavailable) as caught:
        client.complete(ASK)
    assert "tried" not in str(caught.value)


def test_a_stream_cut_after_the_first_token_is_not_retried() -> None:
    seen: list[int] = []

    async def cut(request: web.Request) -> web.StreamResponse:
        seen.append(1)
        response = await _streaming(request)
        await response.write(_chunk("SELECT"))
        assert request.transport is not None
        request.transport.close()
        return response

    with client_to(cut) as client, pytest.raises(ModelUnavailable):
        client.complete(ASK)
    assert len(seen) == 1


def test_a_stream_cut_before_the_first_token_is_retried() -> None:
    seen: list[int] = []

    async def cut_once(request: web.Request) -> web.StreamResponse:
        seen.append(1)
        response = await _streaming(request)
        if len(seen) == 1:
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write(_chunk("fine", "stop"))
        return response

    with client_to(cut_once) as client:
        answer = client.complete(ASK)
    assert (answer.text, answer.attempts) == ("fine", 2)


def test_a_stream_without_an_end_is_an_error() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = await _streaming(request)
        await response.write(_chunk("half an ans"))
        return response

    with client_to(endless) as client, pytest.raises(ModelUnavailable, match="finish reason"):
        client.complete(ASK)


@pytest.mark.parametrize(("code", "kind"), [(500, ModelUnavailable), (400, ModelRefused)])
def test_an_error_in_mid_stream_is_understood(code: int, kind: type[Exception]) -> None:
    async def dying(request: web.Request) -> web.StreamResponse:
        response = await _streaming(request)
        await response.write(_chunk("SEL"))
        error = json.dumps({"error": {"message": "engine died", "code": code}})
        await response.write(f"data: {error}\n\n".encode())
        return response

    with client_to(dying) as client, pytest.raises(kind, match="engine died"):
        client.complete(ASK)


def test_something_that_is_no_llm_server_is_recognised() -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response(text="data: <html>\n\n", content_type="text/event-stream")

    async def home(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>", content_type="text/html")

    def build() -> web.Application:
        app = app_with(page)
        app.router.add_get("/v1/models", home)
        return app

    with run_app(build) as server, LlmClient(server.url, QUICK_RETRIES) as client:
        with pytest.raises(ModelUnavailable, match="not JSON"):
            client.complete(ASK)
        with pytest.raises(ModelUnavailable, match="JSON"):
            client.models()


def test_a_silent_server_times_out() -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(PROMPT_DEADLINE_SECONDS)
        return web.Response()

    settings = QUICK_RETRIES.model_copy(update={"idle_timeout_seconds": 0.1, "retries": 1})
    with client_to(silent, settings) as client, pytest.raises(ModelUnavailable, match="silent"):
        client.complete(ASK)


def test_a_server_that_hangs_is_not_waited_for_when_it_is_only_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hung process still accepts connections; an announcer that waited would fall silent."""

    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(PROMPT_DEADLINE_SECONDS)
        return web.Response()

    def build() -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", silent)
        return app

    monkeypatch.setattr(session, "TELLING_SECONDS", 0.1)
    with run_app(build) as server, LlmClient(server.url, QUICK_RETRIES) as client:
        with pytest.raises(ModelUnavailable, match=r"/models gave no answer within 0\.1 s"):
            client.served()
        with pytest.raises(ModelUnavailable):
            client.metrics()
        assert client.tokenize("text") is None


def test_fields_that_a_strict_server_refuses_are_left_out_from_then_on() -> None:
    bodies: list[dict[str, object]] = []

    async def strict(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        bodies.append(body)
        for name in ("priority", "metadata"):
            if name in body:
                error = {"message": f"Unrecognized request argument supplied: {name}"}
                return web.json_response({"error": error}, status=400)
        return web.json_response(WHOLE_ANSWER)

    request = replace(ASK, priority=1.0, metadata={"stage": "x"}, forced_output_tokens=3)
    with client_to(strict) as client, capture_logs() as logs:
        first, second = client.complete(request), client.complete(request)
    assert (first.attempts, second.attempts) == (3, 1)
    assert [sorted({"priority", "metadata"} & set(body)) for body in bodies] == [
        ["metadata", "priority"],
        ["metadata"],
        [],
        [],
    ]
    assert bodies[-1]["min_tokens"] == 3
    assert [entry["event"] for entry in logs].count("llm.fields_refused") == 2


def test_a_server_that_lets_nobody_go_first_gets_no_priority_from_then_on() -> None:
    request = replace(ASK, priority=1.0)
    with client_of(Pace(takes_priority=False)) as client:
        first, second = client.complete(request), client.complete(request)
    assert (first.attempts, second.attempts) == (2, 1)


def test_a_server_that_blames_what_was_not_sent_is_believed_once() -> None:
    async def confused(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "unknown field: priority"}}, status=400)

    with client_to(confused) as client, pytest.raises(ModelRefused, match="priority"):
        client.complete(ASK)


def test_the_key_is_sent_but_never_shown(tmp_path: Path) -> None:
    async def guarded(request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == "Bearer sesame"
        return web.json_response({"error": {"message": "no such key"}}, status=401)

    settings = LlmSettings(api_key=SecretStr("sesame"))
    with (
        client_to(guarded, settings) as client,
        capture_logs() as logs,
        pytest.raises(ModelUnavailable) as caught,
    ):
        client.complete(ASK)
    assert caught.value.field == "llm.api_key"
    assert "sesame" not in str(caught.value) + repr(caught.value) + str(logs)


def test_proxies_do_not_stand_before_loopback(
    instant: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with LlmClient(instant.url, QUICK_RETRIES) as client:
        assert client.complete(ASK).attempts == 1


def test_a_cancelled_request_frees_its_slot() -> None:
    token, started = CancelToken(), threading.Event()
    slow = replace(ASK, forced_output_tokens=3000)
    with (
        run_emulated(Pace(profile=SMALL)) as server,
        LlmClient(server.url, QUICK_RETRIES) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        future = pool.submit(client.complete, slow, on_first_token=started.set, cancel=token)
        assert started.wait(PROMPT_DEADLINE_SECONDS)
        asked = time.monotonic()
        token.set("the question expired")
        with pytest.raises(RequestCancelled, match="the question expired"):
            future.result(PROMPT_DEADLINE_SECONDS)
        emulated = server.emulated
        assert emulated is not None
        eventually(lambda: emulated.aborted == 1)
        # The request itself would take 33 s.
        assert time.monotonic() - asked < PROMPT_DEADLINE_SECONDS
        eventually(lambda: emulated.load == 0)


def test_a_token_set_beforehand_stops_the_request_at_once(client: LlmClient) -> None:
    token = CancelToken()
    token.set()
    with pytest.raises(RequestCancelled):
        client.complete(ASK, cancel=token)


def test_cancelling_ends_the_wait_between_retries() -> None:
    token = CancelToken()
    plan = FaultPlan(fail_rate=1.0, retry_after=50)
    with client_of(Pace(faults=plan)) as client, ThreadPoolExecutor(1) as pool:
        future = pool.submit(client.complete, ASK, cancel=token)
        time.sleep(0.1)
        token.set()
        with pytest.raises(RequestCancelled):
            future.result(PROMPT_DEADLINE_SECONDS)


def test_closing_the_client_stops_what_is_in_flight() -> None:
    started = threading.Event()
    slow = replace(ASK, forced_output_tokens=3000)
    with run_emulated(Pace(profile=SMALL)) as server, ThreadPoolExecutor(1) as pool:
        client = LlmClient(server.url, LlmSettings(retries=0))
        future = pool.submit(client.complete, slow, on_first_token=started.set)
        assert started.wait(PROMPT_DEADLINE_SECONDS)
        client.close()
        with pytest.raises((RequestCancelled, ModelUnavailable)):
            future.result(PROMPT_DEADLINE_SECONDS)


def test_an_error_of_the_first_token_callback_ends_the_request(client: LlmClient) -> None:
    def refuse() -> None:
        raise LookupError("stale")

    with pytest.raises(LookupError):
        client.complete(ASK, on_first_token=refuse)


def test_many_requests_are_in_flight_at_once() -> None:
    with (
        run_emulated(Pace(constant_seconds=0.5)) as server,
        LlmClient(server.url, QUICK_RETRIES) as client,
    ):
        emulated = server.emulated
        assert emulated is not None
        with ThreadPoolExecutor(64) as pool:
            futures = [pool.submit(client.complete, ASK) for _ in range(64)]
            eventually(lambda: emulated.load == 64 or all(f.done() for f in futures))
            answers = [future.result(PROMPT_DEADLINE_SECONDS) for future in futures]
    assert all(answer.seconds >= 0.5 for answer in answers)
    assert emulated.most_in_flight == 64
