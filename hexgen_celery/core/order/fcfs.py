"""First come, first served, per request.

Why: what vLLM and every list queue do.
What: key = the time the *request* became ready.
Inputs: ready time.
Config: none.
Trade-offs: no estimates; a question pays the queue again at each of its twenty requests.
"""

from __future__ import annotations

from hexgen_celery.core.order.base import ORDER, WithoutDemotion
from hexgen_celery.core.views import RequestView


@ORDER.register("fcfs")
class Fcfs(WithoutDemotion):
    """First request come, first served."""

    name = "fcfs"

    def key(self, request: RequestView, _exec_seconds: float) -> float:
        return request.ready_at
