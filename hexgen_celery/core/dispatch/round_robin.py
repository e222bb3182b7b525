"""Round robin.

Why: what a plain load balancer does; the weakest baseline anybody should be compared with.
What: the ready instances in turn, whatever their speed or load.
Inputs: which instances are ready.
Config: none.
Trade-offs: no information needed; on different GPUs the slowest one decides the tail.
"""

from __future__ import annotations

import random

from hexgen_celery.core.dispatch.base import DISPATCH, ready_instances, to_instance
from hexgen_celery.core.registry import NoParameters
from hexgen_celery.core.views import ClusterView, RequestView, Target


@DISPATCH.register("round-robin")
class RoundRobin:
    """Instances in turn."""

    name = "round-robin"

    def __init__(self, _parameters: NoParameters, _rng: random.Random) -> None:
        self._turn = 0

    def choose(self, _request: RequestView, cluster: ClusterView) -> Target:
        ready = ready_instances(cluster)
        view = ready[self._turn % len(ready)]
        self._turn += 1
        return to_instance(view, float(self._turn - 1))
