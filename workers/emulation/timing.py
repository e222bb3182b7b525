"""When the tokens of an answer come: by a profile's engine model, or after a constant time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from hexgen_celery.core.clock import ScaledClock
from hexgen_celery.core.engine import (
    Engine,
    EngineCounters,
    EngineEvent,
    EngineEventKind,
    EngineRequest,
)
from hexgen_celery.core.profiles import Profile


@dataclass(slots=True, eq=False)
class Ticket:
    """One request inside the server. Times in emulated seconds.

    `first_token` and `finished` become done when those moments come.
    """

    request: EngineRequest
    submitted_at: float
    first_token: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    finished: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    cached_tokens: int = 0
    first_token_at: float = 0.0
    finished_at: float = 0.0

    def see_first_token(self, at: float, cached_tokens: int) -> None:
        """Note the first token (and wake who waits for it)."""
        self.first_token_at, self.cached_tokens = at, cached_tokens
        _finish(self.first_token)

    def see_end(self, at: float) -> None:
        """Note the last token."""
        self.finished_at = at
        _finish(self.finished)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Timing(Protocol):
    """The pace of a server, and its gauges (tokens, requests)."""

    @property
    def running(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def kv_used_tokens(self) -> int: ...
    @property
    def kv_capacity_tokens(self) -> int: ...
    @property
    def counters(self) -> EngineCounters: ...

    def submit(self, request: EngineRequest) -> Ticket:
        """Let `request` in. Raises ValueError when it can never be served."""
        ...

    def leave(self, ticket: Ticket) -> None:
        """The client has gone, or has everything: give back what the request still holds."""
        ...

    def generated(self, ticket: Ticket) -> int:
        """Output tokens so far."""
        ...

    def prefill_seconds(self, ticket: Ticket) -> float:
        """Emulated seconds its own prefill takes, without queueing."""
        ...


class EngineTiming:
    """Drives an `Engine` by a clock that runs `speed` times faster than real time.

    One timer of the event loop is set to the engine's next event; whatever comes in between moves
    it. The engine knows the exact emulated moments; real ones follow within the loop's precision.
    """

    def __init__(self, profile: Profile, speed: float) -> None:
        self._profile = profile
        self._clock = ScaledClock(speed)
        self._engine = Engine(profile)
        self._tickets: dict[str, Ticket] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rearming = False

    @property
    def running(self) -> int:
        return self._engine.running

    @property
    def waiting(self) -> int:
        return self._engine.waiting

    @property
    def kv_used_tokens(self) -> int:
        return self._engine.kv_used_tokens

    @property
    def kv_capacity_tokens(self) -> int:
        return self._engine.kv_capacity_tokens

    @property
    def counters(self) -> EngineCounters:
        return self._engine.counters

    def submit(self, request: EngineRequest) -> Ticket:
        now = self._clock.now()
        self._engine.submit(request, now)
        ticket = Ticket(request, now)
        self._tickets[request.request_id] = ticket
        self._rearm_soon()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        if self._tickets.pop(ticket.request.request_id, None) is not None:
            self._engine.abort(ticket.request.request_id, self._clock.now())
            self._rearm_soon()

    def generated(self, ticket: Ticket) -> int:
        if ticket.finished.done():
            return ticket.request.output_tokens
        self._step()
        if ticket.finished.done():
            return ticket.request.output_tokens
        return self._engine.generated(ticket.request.request_id, self._clock.now())

    def prefill_seconds(self, ticket: Ticket) -> float:
        uncached = ticket.request.input_tokens - ticket.cached_tokens
        return self._profile.prefill_seconds(uncached, ticket.cached_tokens)

    def _rearm_soon(self) -> None:
        """Set the timer once for everything that happens in this turn of the event loop."""
        if not self._rearming:
            self._rearming = True
            asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        self._rearming = False
        for event in self._engine.advance(self._clock.now()):
            self._deliver(event)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        due = self._engine.next_event_at()
        if due is not None:
            delay = max(0.0, due - self._clock.now()) / self._clock.speed
            self._timer = asyncio.get_running_loop().call_later(delay, self._step)

    def _deliver(self, event: EngineEvent) -> None:
        ticket = self._tickets.get(event.request_id)
        if ticket is None:
            return
        if event.kind is EngineEventKind.FIRST_TOKEN:
            ticket.see_first_token(event.at, event.cached_tokens)
        elif event.kind is EngineEventKind.FINISHED:
            del self._tickets[event.request_id]
            ticket.see_end(event.at)


class ConstantTiming:
    """Every answer comes whole after the same real time, however many are in flight.

    It emulates no GPU; it is there to measure what everything around the server costs.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._clock = ScaledClock()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._counters = EngineCounters()

    kv_used_tokens = 0
    kv_capacity_tokens = 0
    waiting = 0

    @property
    def running(self) -> int:
        return len(self._timers)

    @property
    def counters(self) -> EngineCounters:
        return self._counters

    def submit(self, request: EngineRequest) -> Ticket:
        ticket = Ticket(request, self._clock.now())
        self._counters.prompt_tokens += request.input_tokens
        if self._seconds:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._seconds, self._end, ticket)
            self._timers[request.request_id] = timer
        else:
            self._end(ticket)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        timer = self._timers.pop(ticket.request.request_id, None)
        if timer is not None:
            timer.cancel()

    def generated(self, ticket: Ticket) -> int:
        return ticket.request.output_tokens if ticket.finished.done() else 0

    def prefill_seconds(self, ticket: Ticket) -> float:  # noqa: ARG002
        return 0.0

    def _end(self, ticket: Ticket) -> None:
        self._timers.pop(ticket.request.request_id, None)
        self._counters.generation_tokens += ticket.request.output_tokens
        now = self._clock.now()
        ticket.see_first_token(now, 0)
        ticket.see_end(now)
