"""Least work left.

Why: counts work instead of requests, so one long prompt weighs what it costs.
What: the instance that would first have worked off what it already holds.
Inputs: outstanding prefill and output tokens, profile.
Config: none.
Trade-offs: needs output estimates; ignores how long the *new* request takes there, so an idle slow
instance always wins over a busy fast one.
"""

from __future__ import annotations

import random

from hexgen_celery.core.dispatch.base import DISPATCH, LowestScore
from hexgen_celery.core.registry import NoParameters
from hexgen_celery.core.scoring import outstanding_seconds
from hexgen_celery.core.views import InstanceView, RequestView


@DISPATCH.register("least-work")
class LeastWork(LowestScore):
    """Fewest seconds of work held."""

    name = "least-work"

    def __init__(self, _parameters: NoParameters, _rng: random.Random) -> None:
        pass

    def score(self, _request: RequestView, view: InstanceView) -> float:
        return outstanding_seconds(view)
