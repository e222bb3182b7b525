"""Least laxity first, pure.

Why: the question that can wait least goes first.
What: key = deadline − estimated remaining path of the question. All laxities fall at the same
rate, so the latest start time orders them the same way and stays constant.
Inputs: deadline, remaining path (mean).
Config: none.
Trade-offs: in overload it spends the machine on questions that are late anyway, and the feasible
ones behind them become late too (the domino effect); `latest-start` adds demotion against it.
"""

from __future__ import annotations

from hexgen_celery.core.order.base import ORDER, WithoutDemotion
from hexgen_celery.core.urgency import latest_start
from hexgen_celery.core.views import RequestView


@ORDER.register("least-laxity")
class LeastLaxity(WithoutDemotion):
    """Least laxity first."""

    name = "least-laxity"

    def key(self, request: RequestView, _exec_seconds: float) -> float:
        return latest_start(request.deadline, request.remaining_seconds)
