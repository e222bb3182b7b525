"""When a request must start so that its whole question is answered in time."""

from __future__ import annotations


def latest_start(deadline: float, remaining_seconds: float) -> float:
    """The last moment at which the remaining path still ends by the deadline.

    It does not depend on the time at which one asks, so it can order a sorted set; the paper's
    urgency U = t_exec − (budget − waited) sorts the same way with budget for deadline.
    """
    return deadline - remaining_seconds


def laxity(deadline: float, remaining_seconds: float, now: float) -> float:
    """Seconds the request can still wait; negative when it is too late already."""
    return latest_start(deadline, remaining_seconds) - now
