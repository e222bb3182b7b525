"""A small OpenAI-compatible server inside the test's process, which the test can watch."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from types import TracebackType
from typing import Any, Self

from aiohttp import web

POLL_SECONDS = 0.005


class FakeLlm:
    """Answers every chat with `answer`, else with its last message, `seconds` later.

    Counts what is under way. While `holding` is true, streams stay open after their first token;
    while `wedged` is, they get none at all.
    """

    def __init__(self, model: str = "fake-model", seconds: float = 0.0) -> None:
        self.model = model
        self.seconds = seconds
        self.answer = ""
        self.holding = False
        self.wedged = False
        self.status = 200
        self.requests: list[dict[str, Any]] = []
        self.open = 0
        self.most_open = 0
        self.broken_off: list[float] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._runner: web.AppRunner | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.holding = self.wedged = False
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def reset(self) -> None:
        """Behave and count as if just started; streams that are held end."""
        self.answer = ""
        self.holding = self.wedged = False
        self.status = 200
        self.wait_open(0)
        self.requests.clear()
        self.broken_off.clear()
        self.most_open = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_open(self, count: int, seconds: float = 20.0) -> None:
        """Wait until exactly `count` streams are open."""
        until = time.monotonic() + seconds
        while self.open != count:
            assert time.monotonic() < until, f"{self.open} streams are open, not {count}"
            time.sleep(POLL_SECONDS)

    async def _start(self) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def _stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self.model}]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        if self.status != 200:
            return web.json_response({"error": {"message": "told to"}}, status=self.status)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            return await self._stream(request, self.answer or body["messages"][-1]["content"])
        except (asyncio.CancelledError, ConnectionResetError):
            self.broken_off.append(time.monotonic())
            raise
        finally:
            self.open -= 1

    async def _stream(self, request: web.Request, text: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while self.wedged:
            await asyncio.sleep(POLL_SECONDS)
        await response.write(_event({"choices": [{"delta": {"content": text}, "index": 0}]}))
        await asyncio.sleep(self.seconds)
        while self.holding:
            await asyncio.sleep(POLL_SECONDS)
        await response.write(
            _event(
                {
                    "choices": [{"delta": {}, "index": 0, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
                }
            )
        )
        await response.write(b"data: [DONE]\n\n")
        return response


def _event(body: dict[str, Any]) -> bytes:
    return (
        f"data: {json.dumps({'id': 'x', 'object': 'chat.completion.chunk', **body})}\n\n".encode()
    )
