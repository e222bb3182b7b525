"""Random.

Why: needs no state shared between routers; the floor for power-of-two.
What: a ready instance drawn uniformly.
Inputs: which instances are ready, the seed.
Config: none.
Trade-offs: bursts pile up by chance; blind to speed and load.
"""

from __future__ import annotations

import random

from hexgen_celery.core.dispatch.base import DISPATCH, ready_instances, to_instance
from hexgen_celery.core.registry import NoParameters
from hexgen_celery.core.views import ClusterView, RequestView, Target


@DISPATCH.register("random")
class UniformRandom:
    """A ready instance drawn uniformly."""

    name = "random"

    def __init__(self, _parameters: NoParameters, rng: random.Random) -> None:
        self._rng = rng

    def choose(self, _request: RequestView, cluster: ClusterView) -> Target:
        return to_instance(self._rng.choice(ready_instances(cluster)), 0.0)
