"""Prefix affinity with an imbalance limit.

Why: prompts share up to 98 % of their tokens per database; a cache hit saves that prefill.
What: the instance with the most cached prefix, as long as it holds at most `imbalance` requests
more than the least loaded one; otherwise the least loaded one.
Inputs: cached tokens per instance, running and waiting counts.
Config: `imbalance`, requests.
Trade-offs: keeps caches warm and needs no profile; blind to speed, and the limit is a cliff.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from hexgen_celery.core.dispatch.base import DISPATCH, ready_instances, to_instance
from hexgen_celery.core.scoring import outstanding_requests
from hexgen_celery.core.views import ClusterView, InstanceView, RequestView, Target


@dataclass(frozen=True, slots=True)
class PrefixAffinityParameters:
    """`imbalance`: requests a warm instance may hold beyond the least loaded one."""

    imbalance: int = 4

    def __post_init__(self) -> None:
        if self.imbalance < 0:
            raise ValueError(f"imbalance must not be negative, got {self.imbalance}")


@DISPATCH.register("prefix-affinity", PrefixAffinityParameters)
class PrefixAffinity:
    """The warmest cache within an imbalance limit."""

    name = "prefix-affinity"

    def __init__(self, parameters: PrefixAffinityParameters, _rng: random.Random) -> None:
        self._imbalance = parameters.imbalance

    def choose(self, request: RequestView, cluster: ClusterView) -> Target:
        ready = ready_instances(cluster)
        limit = min(map(outstanding_requests, ready)) + self._imbalance

        def rank(view: InstanceView) -> tuple[int, int]:
            return -view.cached_tokens(request.prefix), outstanding_requests(view)

        eligible = (view for view in ready if outstanding_requests(view) <= limit)
        view = min(eligible, key=rank)
        return to_instance(view, float(-rank(view)[0]))
