"""One HTTP exchange with a server: a chat request out, a streamed answer in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

import aiohttp

from hexgen_celery.errors import ModelUnavailable
from hexgen_celery.llm.activity import Activity
from hexgen_celery.llm.endpoint import Endpoint
from hexgen_celery.llm.failures import (
    TransientFailure,
    connection_failure,
    lost_connection,
    read_error,
    reply_from_object,
)
from hexgen_celery.llm.payload import Body
from hexgen_celery.llm.stream import EventSplitter, StreamedAnswer, estimated_tokens
from hexgen_celery.llm.types import Completion

FirstToken = Callable[[], None]
CONNECTION_ERRORS = (aiohttp.ClientError, asyncio.TimeoutError, ConnectionError)
STREAM_ERROR_STATUS = 500


class Exchange:
    """One HTTP exchange: sends the body, reads the stream to its end."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        endpoint: Endpoint,
        body: Body,
        number: int,
        activity: Activity,
    ) -> None:
        self._http = http
        self._activity = activity
        self._url = endpoint.api("chat/completions")
        self._server = endpoint.root
        self._body = body
        self._number = number
        self._answer = StreamedAnswer()
        self._sent_at = 0.0
        self._first_at = 0.0

    async def run(self, first_token: FirstToken) -> Completion:
        """Do it; `first_token` is called once, when the first token arrives.

        Cancelling the task closes the connection, which frees the server's slot.

        Raises:
            TransientFailure: it failed before the first token in a way that may pass.
            ModelUnavailable: it failed later, or in a way that will not pass.
            ModelRefused: the server rejects the request.
        """
        self._sent_at = perf_counter()
        try:
            with self._activity.awaiting():
                await self._exchange(first_token)
        except CONNECTION_ERRORS as error:
            raise self._broken(error) from error
        return self._completion()

    async def _exchange(self, first_token: FirstToken) -> None:
        async with self._http.post(self._url, json=self._body) as response:
            if not response.ok:
                raise (await read_error(self._server, response)).to_exception()
            if response.content_type == "application/json":
                self._take(await response.read(), first_token)
            else:
                await self._read_stream(response, first_token)

    async def _read_stream(self, response: aiohttp.ClientResponse, first_token: FirstToken) -> None:
        events = EventSplitter()
        async for chunk in response.content.iter_any():
            for payload in events.feed(chunk):
                self._take(payload, first_token)

    def _take(self, payload: bytes, first_token: FirstToken) -> None:
        answer = self._answer
        self._activity.heard()
        try:
            answer.take(payload)
        except ValueError as error:
            raise ModelUnavailable(
                f"{self._server} sent an answer that is not JSON: {error}",
                field="url",
                hint="is this an OpenAI-compatible server?",
            ) from error
        if answer.error is not None:
            raise self._reported(answer.error)
        if answer.started and not self._first_at:
            self._first_at = perf_counter()
            first_token()

    def _reported(self, error: dict[str, Any]) -> Exception:
        code = error.get("code")
        status = code if isinstance(code, int) and code >= 400 else STREAM_ERROR_STATUS
        failure = reply_from_object(self._server, status, error).to_exception()
        if self._first_at and isinstance(failure, TransientFailure):
            return ModelUnavailable(failure.message, hint=failure.hint)
        return failure

    def _broken(self, error: BaseException) -> ModelUnavailable:
        """Once a token was seen the caller decides about another attempt, through the router."""
        if self._first_at:
            return lost_connection(self._server, error)
        return connection_failure(self._server, error)

    def _completion(self) -> Completion:
        answer = self._answer
        if not answer.complete:
            raise self._broken(ConnectionError("the stream ended without a finish reason"))
        usage, text = answer.usage, answer.text
        prompt = "".join(message["content"] for message in self._body["messages"])
        return Completion(
            text=text,
            input_tokens=int(usage.get("prompt_tokens") or estimated_tokens(prompt)),
            output_tokens=int(usage.get("completion_tokens", estimated_tokens(text))),
            cached_tokens=answer.cached_tokens,
            finish_reason=answer.finish_reason,
            first_token_seconds=self._first_at - self._sent_at,
            seconds=perf_counter() - self._sent_at,
            attempts=self._number,
            server=self._server,
            usage_reported=bool(usage),
            cache_reported=answer.cache_reported,
        )
