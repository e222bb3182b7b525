"""Earliest completion, reading the instance as a line.

Why: the list-scheduling rule for unrelated machines (HEFT and its kin).
What: work held + the request's own time on that instance, cold cache, in seconds.
Inputs: outstanding prefill and output tokens, token counts, profile.
Config: none.
Trade-offs: right for servers that serve one at a time; on a batching engine it overrates the wait,
because decodes overlap. `alpha-own` is the same idea with batching and the cache in it.
"""

from __future__ import annotations

import random

from hexgen_celery.core.dispatch.base import DISPATCH, LowestScore
from hexgen_celery.core.registry import NoParameters
from hexgen_celery.core.scoring import idle_seconds, outstanding_seconds
from hexgen_celery.core.views import InstanceView, RequestView


@DISPATCH.register("earliest-completion")
class EarliestCompletion(LowestScore):
    """Work held plus own time."""

    name = "earliest-completion"

    def __init__(self, _parameters: NoParameters, _rng: random.Random) -> None:
        pass

    def score(self, request: RequestView, view: InstanceView) -> float:
        return outstanding_seconds(view) + idle_seconds(request, view)
