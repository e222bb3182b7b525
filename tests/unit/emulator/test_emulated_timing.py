"""The emulated clockwork keeps the engine model's times exactly."""

from __future__ import annotations

import asyncio

import pytest

from hexgen_celery.core.engine import Engine, EngineEventKind, EngineRequest
from tests.small_profile import small_profile
from workers.emulation.timing import ConstantTiming, EngineTiming, Ticket

PROFILE = small_profile(
    gpu="test", prefill_quadratic=1e-6, decode_per_context_token=1e-6, max_sequences=3
)
SPEED = 20.0


def _request(number: int, output_tokens: int = 40, priority: float = 0.0) -> EngineRequest:
    return EngineRequest(f"r{number}", 100 + 30 * number, output_tokens, priority=priority)


def _reference(tickets: list[Ticket]) -> dict[str, list[float]]:
    """First token and end of each request, by the bare engine fed at the same moments."""
    engine, times = Engine(PROFILE), {ticket.request.request_id: [0.0, 0.0] for ticket in tickets}
    events = []
    for ticket in tickets:
        events += engine.advance(ticket.submitted_at)
        engine.submit(ticket.request, ticket.submitted_at)
    while (due := engine.next_event_at()) is not None:
        events += engine.advance(due)
    for event in events:
        times[event.request_id][event.kind is EngineEventKind.FINISHED] = event.at
    return times


async def _run(spacing: float) -> list[Ticket]:
    timing, tickets = EngineTiming(PROFILE, SPEED), []
    for number in range(8):
        tickets.append(timing.submit(_request(number)))
        await asyncio.sleep(spacing)
    await asyncio.gather(*(ticket.finished for ticket in tickets))
    assert timing.running == timing.waiting == 0
    return tickets


@pytest.mark.parametrize("spacing", [0.0, 0.003])
def test_first_tokens_and_ends_are_the_engines(spacing: float) -> None:
    tickets = asyncio.run(_run(spacing))
    for request_id, (first, end) in _reference(tickets).items():
        ticket = next(t for t in tickets if t.request.request_id == request_id)
        assert ticket.first_token_at == pytest.approx(first)
        assert ticket.finished_at == pytest.approx(end)


def test_nothing_comes_early_in_real_time() -> None:
    async def run() -> tuple[float, float]:
        timing, loop = EngineTiming(PROFILE, SPEED), asyncio.get_running_loop()
        started = loop.time()
        ticket = timing.submit(_request(0))
        await ticket.finished
        return loop.time() - started, (ticket.finished_at - ticket.submitted_at) / SPEED

    real, emulated = asyncio.run(run())
    assert real >= emulated * 0.999


def test_the_urgent_go_first_and_progress_is_seen() -> None:
    async def run() -> list[Ticket]:
        timing = EngineTiming(PROFILE, SPEED)
        running = [timing.submit(_request(n)) for n in range(PROFILE.max_sequences)]
        relaxed = timing.submit(_request(8, priority=9.0))
        urgent = timing.submit(_request(9, priority=1.0))
        await running[0].first_token
        assert timing.generated(running[0]) >= 1
        assert timing.kv_used_tokens > 0
        await asyncio.gather(relaxed.finished, urgent.finished)
        assert timing.generated(running[0]) == 40
        return [urgent, relaxed]

    urgent, relaxed = asyncio.run(run())
    assert urgent.first_token_at < relaxed.first_token_at


def test_leaving_frees_the_slot_for_the_next() -> None:
    async def run() -> EngineTiming:
        timing = EngineTiming(PROFILE, SPEED)
        endless = [timing.submit(_request(n, 3000)) for n in range(PROFILE.max_sequences)]
        waiting = timing.submit(_request(7))
        await endless[0].first_token
        assert timing.waiting == 1
        timing.leave(endless[0])
        await asyncio.wait_for(waiting.finished, 20)
        for ticket in endless:
            timing.leave(ticket)
        timing.leave(waiting)
        return timing

    timing = asyncio.run(run())
    assert timing.waiting == 0
    assert timing.counters.generation_tokens > 0


def test_what_can_never_be_served_is_refused() -> None:
    async def run() -> None:
        EngineTiming(PROFILE, SPEED).submit(EngineRequest("r", 5000, 1))

    with pytest.raises(ValueError):
        asyncio.run(run())


def test_constant_time_does_not_depend_on_load() -> None:
    async def run() -> tuple[list[Ticket], int]:
        timing = ConstantTiming(0.05)
        tickets = [timing.submit(_request(n)) for n in range(50)]
        inside = timing.running
        await asyncio.gather(*(ticket.finished for ticket in tickets))
        assert timing.running == 0
        assert timing.generated(tickets[0]) == 40
        return tickets, inside

    tickets, inside = asyncio.run(run())
    assert inside == 50
    assert all(ticket.finished_at - ticket.submitted_at >= 0.049 for ticket in tickets)


def test_constant_time_can_be_left_or_be_nothing() -> None:
    async def run() -> None:
        slow = ConstantTiming(60)
        ticket = slow.submit(_request(0))
        assert slow.generated(ticket) == 0
        slow.leave(ticket)
        slow.leave(ticket)
        assert slow.running == 0
        assert ConstantTiming(0).submit(_request(0)).finished.done()

    asyncio.run(run())
