"""Power of two choices.

Why: nearly as good as least outstanding with two look-ups, and no herd when views are stale.
What: two ready instances drawn at random; the one with fewer requests outstanding.
Inputs: running and waiting counts, the seed.
Config: none.
Trade-offs: ignores an idle third instance; blind to speed except through its queue.
"""

from __future__ import annotations

import random

from hexgen_celery.core.dispatch.base import DISPATCH, ready_instances, to_instance
from hexgen_celery.core.registry import NoParameters
from hexgen_celery.core.scoring import outstanding_requests
from hexgen_celery.core.views import ClusterView, RequestView, Target


@DISPATCH.register("power-of-two")
class PowerOfTwo:
    """The less loaded of two drawn at random."""

    name = "power-of-two"

    def __init__(self, _parameters: NoParameters, rng: random.Random) -> None:
        self._rng = rng

    def choose(self, _request: RequestView, cluster: ClusterView) -> Target:
        ready = ready_instances(cluster)
        pair = self._rng.sample(ready, min(2, len(ready)))
        view = min(pair, key=outstanding_requests)
        return to_instance(view, float(outstanding_requests(view)))
