"""What a server with room could take from the queues of others."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from hexgen_celery.core.scoring import execution_seconds, prefill_ahead_seconds
from hexgen_celery.core.stealing import StealCandidate
from hexgen_celery.core.views import InstanceView, RequestView
from hexgen_celery.simulator.server import Attempt, Server

# The most urgent few of each queue; the rest would not be chosen.
CANDIDATES_PER_QUEUE = 8


def steal_candidates(thief: Server, servers: Iterable[Server]) -> list[StealCandidate[Attempt]]:
    """Requests waiting at other servers with their seconds to the end there and here."""
    return [
        StealCandidate(
            attempt,
            seconds_there=seconds_there(attempt, server),
            seconds_here=seconds_to_end(attempt.view, thief.view),
        )
        for server in servers
        if server is not thief
        for attempt in islice(server.queue.feasible, CANDIDATES_PER_QUEUE)
    ]


def seconds_there(attempt: Attempt, server: Server) -> float:
    """As `seconds_to_end`, where the request's own prefill is part of what is outstanding."""
    own = attempt.uncached / server.profile.prefill_tokens_per_second
    return seconds_to_end(attempt.view, server.view) - own


def seconds_to_end(request: RequestView, view: InstanceView) -> float:
    """Prefill ahead of the request, then its own execution."""
    return prefill_ahead_seconds(view) + execution_seconds(request, view)
