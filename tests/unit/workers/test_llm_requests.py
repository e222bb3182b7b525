"""Running one LLM request, over a client that is told what to answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import redis

from hexgen_celery.errors import HexgenError
from hexgen_celery.llm import CancelToken, ChatRequest, Completion
from hexgen_celery.llm.failures import ContextOverflow, ContextTooShort
from hexgen_celery.references import ClaimedRequest, RequestRef
from hexgen_celery.workflows.definition import (
    LlmCall,
    NodeKind,
    NodeSpec,
    PartRef,
    Submission,
)
from workers.llm_requests import LlmExecutor
from workers.prompts import PromptAssembler

CALL = LlmCall(
    parts=(PartRef("a", 2),),
    tail="q",
    input_tokens=3,
    output_tokens=5.0,
    max_tokens=50,
    temperature=0.5,
    seed=3,
    stop=("END",),
    response_format={"type": "json_object"},
    metadata={"stage": "chat"},
    forced_output_tokens=5,
)
REQUEST = ClaimedRequest(
    RequestRef("w", "chat", 1),
    NodeSpec("chat", NodeKind.LLM, "chat", "chat", CALL),
    Submission("w", "chat", "q", "", 60.0, 100.0, 160.0),
)
COMPLETION = Completion("hi", 3, 5, 1, "stop", 0.25, 1.5, 2, "http://s")


class _Parts:
    def get(self, hashes: Sequence[str]) -> list[str]:
        return ["rules"] * len(hashes)


class _Client:
    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []
        self.cancels: list[CancelToken | None] = []

    def complete(
        self,
        request: ChatRequest,
        *,
        on_first_token: Callable[[], None] | None = None,
        cancel: CancelToken | None = None,
    ) -> Completion:
        self.requests.append(request)
        self.cancels.append(cancel)
        assert on_first_token is not None
        on_first_token()
        return COMPLETION


def test_the_call_becomes_a_chat_request_and_its_completion_the_result() -> None:
    client, cancel = _Client(), CancelToken()
    tokens: list[RequestRef] = []
    progress: list[str] = []
    executor = LlmExecutor(
        client,
        PromptAssembler(_Parts()),
        tokens.append,
        "the-model",
        on_progress=lambda: progress.append("seen"),
        on_unavailable=progress.append,
    )
    done = executor.execute(REQUEST, cancel)
    assert client.requests == [
        ChatRequest(
            model="the-model",
            messages=(("system", "rules"), ("user", "q")),
            max_tokens=50,
            temperature=0.5,
            seed=3,
            stop=("END",),
            response_format={"type": "json_object"},
            metadata={"stage": "chat"},
            priority=160.0,
            forced_output_tokens=5,
        )
    ]
    assert client.cancels == [cancel]
    assert tokens == [REQUEST.ref]
    assert progress == ["seen", "seen"]
    assert done.bulk is None
    assert done.result == {
        "text": "hi",
        "input_tokens": 3,
        "output_tokens": 5,
        "cached_tokens": 1,
        "finish_reason": "stop",
        "first_token_seconds": 0.25,
        "seconds": 1.5,
        "http_attempts": 2,
    }


def test_the_server_is_told_the_rank_that_the_request_had_in_its_queue() -> None:
    """By the latest start of its question; the deadline where the message did not say."""
    client = _Client()
    executor = LlmExecutor(
        client,
        PromptAssembler(_Parts()),
        lambda _ref: None,
        "m",
        on_progress=list,
        on_unavailable=list,
    )
    executor.execute(replace(REQUEST, latest_start=151.25), CancelToken())
    executor.execute(REQUEST, CancelToken())
    assert [request.priority for request in client.requests] == [151.25, 160.0]


def test_a_first_token_that_cannot_be_reported_does_not_end_the_request() -> None:
    def unreachable(_ref: RequestRef) -> None:
        raise redis.ConnectionError("gone")

    executor = LlmExecutor(
        _Client(),
        PromptAssembler(_Parts()),
        unreachable,
        "m",
        on_progress=list,
        on_unavailable=list,
    )
    assert executor.execute(REQUEST, CancelToken()).result["text"] == "hi"


class _ShortClient(_Client):
    def complete(self, request: ChatRequest, **_rest: object) -> Completion:
        raise ContextOverflow(f"{request.max_tokens} are too many")


def test_whoever_knows_the_others_says_what_an_overflow_fails_with() -> None:
    def longer_elsewhere(request: ClaimedRequest, error: ContextOverflow) -> HexgenError:
        assert request is REQUEST
        return ContextTooShort(error.message, 40)

    unavailable: list[str] = []
    executor = LlmExecutor(
        _ShortClient(),
        PromptAssembler(_Parts()),
        lambda _ref: None,
        "m",
        on_progress=list,
        on_unavailable=unavailable.append,
        on_overflow=longer_elsewhere,
    )
    with pytest.raises(ContextTooShort) as raised:
        executor.execute(REQUEST, CancelToken())
    assert raised.value.to_json()["context_tokens"] == "40"
    assert unavailable == [], "nothing is wrong with the server"
