"""Running LLM requests: one completion from one instance per request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import redis
import structlog

from hexgen_celery.errors import HexgenError, ModelUnavailable
from hexgen_celery.llm import CancelToken, ChatRequest, Completion
from hexgen_celery.llm.failures import ContextOverflow
from hexgen_celery.references import ClaimedRequest, RequestRef
from hexgen_celery.workflows.definition import Json, LlmCall
from workers.prompts import PromptAssembler
from workers.requests import Done

log = structlog.get_logger(__name__)


class Completions(Protocol):
    """The LLM client."""

    def complete(
        self,
        request: ChatRequest,
        *,
        on_first_token: Callable[[], None] | None = None,
        cancel: CancelToken | None = None,
    ) -> Completion:
        """Ask for one completion and wait for it."""
        ...


Overflow = Callable[[ClaimedRequest, ContextOverflow], HexgenError]


def _refused(_request: ClaimedRequest, error: ContextOverflow) -> HexgenError:
    return error


class LlmExecutor:
    """Runs LLM requests on one instance. `on_overflow` says what a request that does not fit there
    fails with."""

    def __init__(
        self,
        completions: Completions,
        prompts: PromptAssembler,
        report_first_token: Callable[[RequestRef], object],
        model: str,
        *,
        on_progress: Callable[[], object],
        on_unavailable: Callable[[str], object],
        on_overflow: Overflow = _refused,
    ) -> None:
        self._completions = completions
        self._prompts = prompts
        self._report_first_token = report_first_token
        self._model = model
        self._on_progress = on_progress
        self._on_unavailable = on_unavailable
        self._on_overflow = on_overflow

    def execute(self, request: ClaimedRequest, cancel: CancelToken) -> Done:
        """Stream one completion; see `RequestExecutor`."""
        call = request.spec.call
        assert isinstance(call, LlmCall), f"{request.spec.id} is not an LLM request"
        ref = request.ref
        chat = self._chat_request(request, call)
        try:
            completion = self._completions.complete(
                chat, on_first_token=lambda: self._first_token(ref), cancel=cancel
            )
        except ModelUnavailable as error:
            self._on_unavailable(str(error))
            raise
        except ContextOverflow as error:
            raise self._on_overflow(request, error) from None
        self._on_progress()
        return Done(_result(completion))

    def _first_token(self, ref: RequestRef) -> None:
        """Only bookkeeping (the prefill is no longer outstanding): never worth the request."""
        self._on_progress()
        try:
            self._report_first_token(ref)
        except redis.RedisError as error:
            log.warning("first token not reported", request=str(ref), error=str(error))

    def _chat_request(self, request: ClaimedRequest, call: LlmCall) -> ChatRequest:
        return ChatRequest(
            model=self._model,
            messages=self._prompts.messages(call),
            max_tokens=call.max_tokens,
            temperature=call.temperature,
            seed=call.seed,
            stop=call.stop,
            response_format=call.response_format,
            metadata=call.metadata,
            priority=_priority(request),
            forced_output_tokens=call.forced_output_tokens,
        )


def _priority(request: ClaimedRequest) -> float:
    """The rank in its queue, so that its server goes on in the same order; else the deadline."""
    known = request.latest_start
    return request.deadline if known is None else known


def _result(completion: Completion) -> Json:
    """The result of an LLM node, as `NodeState.result` describes it."""
    return {
        "text": completion.text,
        "input_tokens": completion.input_tokens,
        "output_tokens": completion.output_tokens,
        "cached_tokens": completion.cached_tokens,
        "finish_reason": completion.finish_reason,
        "first_token_seconds": round(completion.first_token_seconds, 6),
        "seconds": round(completion.seconds, 6),
        "http_attempts": completion.attempts,
    }
