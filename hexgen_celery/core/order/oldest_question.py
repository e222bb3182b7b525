"""Oldest question first.

Why: finishes what was begun; strong against tails with one class and no estimates at all.
What: key = the time the *question* was submitted.
Inputs: submission time.
Config: none.
Trade-offs: blind to deadlines, so interactive and relaxed questions wait alike.
"""

from __future__ import annotations

from hexgen_celery.core.order.base import ORDER, WithoutDemotion
from hexgen_celery.core.views import RequestView


@ORDER.register("oldest-question")
class OldestQuestion(WithoutDemotion):
    """Oldest question first."""

    name = "oldest-question"

    def key(self, request: RequestView, _exec_seconds: float) -> float:
        return request.submitted_at
