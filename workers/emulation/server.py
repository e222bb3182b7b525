"""The HTTP server of an emulated instance: vLLM's routes over an answer planner and a timing."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from aiohttp import web

from hexgen_celery import __version__
from hexgen_celery.core.engine import EngineRequest
from workers.emulation.answers import AnswerPlanner, PlannedAnswer
from workers.emulation.api_error import ApiError
from workers.emulation.faults import FaultInjector
from workers.emulation.inference import (
    BAD_REQUEST,
    InferenceRequest,
    json_object,
    parse_request,
)
from workers.emulation.metrics import ServerMetrics
from workers.emulation.timing import Ticket, Timing
from workers.emulation.tokens import count_tokens
from workers.emulation.wire import AnswerWire

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
EMULATED = {"X-Emulated": "true"}
MAX_BODY_BYTES = 64 * 1024 * 1024

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What the server says about itself, how often it streams (real seconds), and whether it lets
    requests have a priority, as vLLM's `--scheduling-policy priority` does."""

    model: str
    max_model_len: int
    chunk_seconds: float = 0.1
    block_tokens: int = 16
    takes_priority: bool = True


class EmulatedServer:
    """One instance. All of it runs on one event loop."""

    def __init__(
        self, options: ServerOptions, planner: AnswerPlanner, timing: Timing, faults: FaultInjector
    ) -> None:
        self._options = options
        self._planner = planner
        self._timing = timing
        self._faults = faults
        self._metrics = ServerMetrics(timing, options.model, options.block_tokens)
        self._ids = itertools.count(1)
        self.aborted = 0
        self.most_in_flight = 0

    @property
    def load(self) -> int:
        """Requests inside, running or waiting."""
        return self._timing.running + self._timing.waiting

    def app(self) -> web.Application:
        """The aiohttp application; run it with `handler_cancellation=True`."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_errors_as_vllm])
        app.add_routes(
            [
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._completions),
                web.get("/v1/models", self._models),
                web.post("/tokenize", self._tokenize),
                web.get("/health", self._health),
                web.get("/version", self._version),
                web.get("/load", self._load),
                web.get("/metrics", self._metrics_text),
            ]
        )
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._infer(request, chat=True)

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._infer(request, chat=False)

    async def _infer(self, http: web.Request, *, chat: bool) -> web.StreamResponse:
        self._faults.maybe_fail()
        request = parse_request(await http.read(), chat=chat)
        self._check_model(request.model)
        self._check_priority(request.priority)
        answer = self._planner.plan(request)
        request_id = str(next(self._ids))
        ticket = self._submit(request, answer, request_id)
        wire = AnswerWire(request, answer, request_id)
        try:
            if request.stream:
                return await self._stream(http, wire, ticket)
            await ticket.finished
            return _json(wire.whole(ticket.cached_tokens))
        finally:
            self._leave(ticket)

    def _check_model(self, model: str) -> None:
        if model != self._options.model:
            raise ApiError(404, f"The model `{model}` does not exist.", "model")

    def _check_priority(self, priority: float) -> None:
        if priority and not self._options.takes_priority:
            message = f"Got priority {priority:g} but Priority scheduling is not enabled."
            raise ApiError(BAD_REQUEST, message, "priority")

    def _submit(self, request: InferenceRequest, answer: PlannedAnswer, request_id: str) -> Ticket:
        work = EngineRequest(
            request_id, answer.input_tokens, answer.output_tokens, answer.prefix, request.priority
        )
        try:
            ticket = self._timing.submit(work)
        except ValueError as error:
            raise ApiError(BAD_REQUEST, str(error), "input_tokens") from error
        self.most_in_flight = max(self.most_in_flight, self.load)
        return ticket

    def _leave(self, ticket: Ticket) -> None:
        if ticket.finished.done():
            self._metrics.finished(ticket)
        else:
            self.aborted += 1
            log.debug("emulator.aborted", request=ticket.request.request_id)
        self._timing.leave(ticket)

    async def _stream(
        self, http: web.Request, wire: AnswerWire, ticket: Ticket
    ) -> web.StreamResponse:
        await ticket.first_token
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **EMULATED})
        await response.prepare(http)
        if ticket.finished.done():
            opening = wire.first_chunk(0)
        else:
            await response.write(wire.first_chunk(self._timing.generated(ticket)))
            self._maybe_cut(http)
            await self._stream_until_end(response, wire, ticket)
            opening = b""
        await response.write(opening + wire.last_chunk(ticket.cached_tokens))
        await response.write_eof()
        return response

    async def _stream_until_end(
        self, response: web.StreamResponse, wire: AnswerWire, ticket: Ticket
    ) -> None:
        while not ticket.finished.done():
            await asyncio.wait((ticket.finished,), timeout=self._options.chunk_seconds)
            if not ticket.finished.done():
                chunk = wire.next_chunk(self._timing.generated(ticket))
                if chunk:
                    await response.write(chunk)

    def _maybe_cut(self, http: web.Request) -> None:
        if self._faults.cuts() and http.transport is not None:
            http.transport.abort()

    async def _models(self, http: web.Request) -> web.Response:  # noqa: ARG002
        entry = {
            "id": self._options.model,
            "object": "model",
            "owned_by": "emulated",
            "max_model_len": self._options.max_model_len,
        }
        return _json(json.dumps({"object": "list", "data": [entry]}).encode())

    async def _tokenize(self, http: web.Request) -> web.Response:
        """Counts only: emulated tokens have no identities."""
        prompt = json_object(await http.read()).get("prompt")
        if not isinstance(prompt, str):
            raise ApiError(BAD_REQUEST, "prompt must be one text", "prompt")
        limit = self._options.max_model_len
        answer = {"count": count_tokens(len(prompt)), "max_model_len": limit, "tokens": []}
        return _json(json.dumps(answer).encode())

    async def _health(self, http: web.Request) -> web.Response:  # noqa: ARG002
        return web.Response(headers=EMULATED)

    async def _version(self, http: web.Request) -> web.Response:  # noqa: ARG002
        return _json(json.dumps({"version": f"emulated-{__version__}"}).encode())

    async def _load(self, http: web.Request) -> web.Response:  # noqa: ARG002
        return _json(json.dumps({"server_load": self.load}).encode())

    async def _metrics_text(self, http: web.Request) -> web.Response:  # noqa: ARG002
        return web.Response(
            body=self._metrics.text(), headers=EMULATED, content_type="text/plain", charset="utf-8"
        )


@web.middleware
async def _errors_as_vllm(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        return _json(json.dumps(error.body()).encode(), error.status, error.headers())
    except web.HTTPException as error:
        return _json(json.dumps(ApiError(error.status, str(error)).body()).encode(), error.status)


def _json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=body,
        status=status,
        headers={**EMULATED, **(headers or {})},
        content_type="application/json",
    )
