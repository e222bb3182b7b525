"""Emulated instances and misbehaving servers on real sockets, each on a loop of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web

from hexgen_celery.core.profiles import Profile
from hexgen_celery.llm import LlmClient
from hexgen_celery.llm.loop_thread import LoopThread
from hexgen_celery.settings import LlmSettings
from tests.small_profile import small_profile
from workers.emulation.answers import AnswerPlanner
from workers.emulation.faults import FaultInjector, FaultPlan
from workers.emulation.replay import ReplayStore
from workers.emulation.server import EmulatedServer, ServerOptions
from workers.emulation.timing import ConstantTiming, EngineTiming

ChatHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MODEL = "emulated-model"
QUICK_RETRIES = LlmSettings(backoff_seconds=0.001, backoff_max_seconds=0.01)
SMALL = small_profile(gpu="test", model=MODEL, kv_tokens=16_384, max_sequences=4)


@dataclass
class RunningServer:
    """A server on its own thread. `call` runs a function on its loop."""

    url: str
    loop: LoopThread
    emulated: EmulatedServer | None = None


@dataclass(frozen=True)
class Pace:
    """How an emulated instance is to behave."""

    profile: Profile | None = None
    constant_seconds: float = 0.0
    speed: float = 1.0
    replay: ReplayStore = field(default_factory=ReplayStore)
    faults: FaultPlan = field(default_factory=FaultPlan)
    chunk_seconds: float = 0.02
    filler_tokens: int = 8
    takes_priority: bool = True


@contextmanager
def run_app(build: Callable[[], web.Application]) -> Iterator[RunningServer]:
    """Serve what `build` makes, on a free port."""
    loop = LoopThread("test-server")
    listener = socket.create_server(("127.0.0.1", 0))

    async def start() -> web.AppRunner:
        runner = web.AppRunner(build(), handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.SockSite(runner, listener).start()
        return runner

    runner = loop.call(start())
    try:
        yield RunningServer(f"http://127.0.0.1:{listener.getsockname()[1]}", loop)
    finally:
        loop.call(runner.cleanup())
        loop.close()


@contextmanager
def run_emulated(pace: Pace) -> Iterator[RunningServer]:
    """Serve an emulated instance."""
    built: list[EmulatedServer] = []

    def build() -> web.Application:
        timing = (
            EngineTiming(pace.profile, pace.speed)
            if pace.profile
            else ConstantTiming(pace.constant_seconds)
        )
        planner = AnswerPlanner(pace.replay, max_model_len=4096, filler_tokens=pace.filler_tokens)
        options = ServerOptions(
            MODEL, 4096, chunk_seconds=pace.chunk_seconds, takes_priority=pace.takes_priority
        )
        built.append(EmulatedServer(options, planner, timing, FaultInjector(pace.faults)))
        return built[0].app()

    with run_app(build) as server:
        server.emulated = built[0]
        yield server


def app_with(handler: ChatHandler) -> web.Application:
    """An application whose chat route is `handler`."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", handler)
    return app


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until `condition` holds."""

    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(wait(), seconds))


@contextmanager
def client_of(pace: Pace, settings: LlmSettings = QUICK_RETRIES) -> Iterator[LlmClient]:
    """A client of an emulated instance."""
    with run_emulated(pace) as server, LlmClient(server.url, settings) as client:
        yield client


@contextmanager
def client_to(handler: ChatHandler, settings: LlmSettings = QUICK_RETRIES) -> Iterator[LlmClient]:
    """A client of a server whose chat route is `handler`."""
    with run_app(lambda: app_with(handler)) as server, LlmClient(server.url, settings) as client:
        yield client
