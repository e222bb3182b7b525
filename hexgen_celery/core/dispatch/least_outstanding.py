"""Least outstanding requests.

Why: without a parameter it beat the published policy in nine of nine pairs: the baseline to beat.
What: the instance with the fewest requests running and waiting.
Inputs: running and waiting counts.
Config: none.
Trade-offs: adapts to speed by itself, since slow instances drain slower; counts a 13,000-token
prompt like a 300-token one and knows nothing of caches.
"""

from __future__ import annotations

import random

from hexgen_celery.core.dispatch.base import DISPATCH, LowestScore
from hexgen_celery.core.registry import NoParameters
from hexgen_celery.core.views import InstanceView, RequestView


@DISPATCH.register("least-outstanding")
class LeastOutstanding(LowestScore):
    """Fewest requests running and waiting."""

    name = "least-outstanding"

    def __init__(self, _parameters: NoParameters, _rng: random.Random) -> None:
        pass

    def score(self, _request: RequestView, view: InstanceView) -> float:
        return view.running + view.waiting
