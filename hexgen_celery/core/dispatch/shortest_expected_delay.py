"""Shortest expected delay.

Why: the textbook rule for servers of different speed.
What: (outstanding requests + 1) × the request's own time on that instance.
Inputs: running and waiting counts, token counts, profile.
Config: none.
Trade-offs: knows speed, not what the others' work is; treats a batch as if it were a line.
"""

from __future__ import annotations

import random

from hexgen_celery.core.dispatch.base import DISPATCH, LowestScore
from hexgen_celery.core.registry import NoParameters
from hexgen_celery.core.scoring import idle_seconds, outstanding_requests
from hexgen_celery.core.views import InstanceView, RequestView


@DISPATCH.register("shortest-expected-delay")
class ShortestExpectedDelay(LowestScore):
    """Outstanding requests times expected time."""

    name = "shortest-expected-delay"

    def __init__(self, _parameters: NoParameters, _rng: random.Random) -> None:
        pass

    def score(self, request: RequestView, view: InstanceView) -> float:
        return (outstanding_requests(view) + 1) * idle_seconds(request, view)
