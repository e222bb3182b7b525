"""Fastest instance.

Why: shows what hardware awareness without load awareness is worth.
What: the instance on which the request alone would be quickest; equals by fewest outstanding.
Inputs: token counts, profile, running and waiting counts.
Config: none.
Trade-offs: best when idle, useless as soon as the fast instances are full.
"""

from __future__ import annotations

import random

from hexgen_celery.core.dispatch.base import DISPATCH, ready_instances, to_instance
from hexgen_celery.core.registry import NoParameters
from hexgen_celery.core.scoring import idle_seconds, outstanding_requests
from hexgen_celery.core.views import ClusterView, InstanceView, RequestView, Target


@DISPATCH.register("fastest")
class Fastest:
    """Quickest when alone."""

    name = "fastest"

    def __init__(self, _parameters: NoParameters, _rng: random.Random) -> None:
        pass

    def choose(self, request: RequestView, cluster: ClusterView) -> Target:
        def rank(view: InstanceView) -> tuple[float, int]:
            return idle_seconds(request, view), outstanding_requests(view)

        view = min(ready_instances(cluster), key=rank)
        return to_instance(view, idle_seconds(request, view))
