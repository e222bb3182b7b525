"""The contract of dispatch: one request, one cluster, one target."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from hexgen_celery.core.registry import Registry
from hexgen_celery.core.views import ClusterView, InstanceView, RequestView, Target


class NoReadyInstance(ValueError):
    """Raised when no instance can serve; the caller keeps the request waiting."""


class DispatchPolicy(Protocol):
    """Chooses where a ready request waits. May keep state; randomness comes from its seed."""

    name: str

    def choose(self, request: RequestView, cluster: ClusterView) -> Target:
        """The queue for `request`. Raises `NoReadyInstance` when nothing is ready."""
        ...


DISPATCH: Registry[DispatchPolicy] = Registry("dispatch policy")


def build_dispatch(name: str, rng: random.Random, **parameters: Any) -> DispatchPolicy:
    """Build the policy `name`; raises `UnknownName` or `InvalidParameter`."""
    return DISPATCH.build(name, rng, **parameters)


def ready_instances(cluster: ClusterView) -> list[InstanceView]:
    """The instances that can serve; raises `NoReadyInstance` when there is none."""
    ready = cluster.ready()
    if not ready:
        known = ", ".join(view.instance for view in cluster.instances) or "none"
        raise NoReadyInstance(f"no instance is ready (known: {known})")
    return ready


def to_instance(view: InstanceView, score: float, **reasons: float) -> Target:
    """The target that is this one instance."""
    return Target(view.pool, view.instance, score, reasons)


class LowestScore(ABC):
    """A policy that sends each request to the ready instance with the lowest score.

    Equal scores go to the first in the cluster's order, so that a decision can be repeated.
    """

    name: str

    @abstractmethod
    def score(self, request: RequestView, view: InstanceView) -> float:
        """The cost of sending `request` to `view`, in the policy's own unit."""

    def choose(self, request: RequestView, cluster: ClusterView) -> Target:
        best, score = self._lowest(request, ready_instances(cluster))
        return to_instance(best, score)

    def _lowest(
        self, request: RequestView, views: Sequence[InstanceView]
    ) -> tuple[InstanceView, float]:
        best, lowest = views[0], self.score(request, views[0])
        for view in views[1:]:
            score = self.score(request, view)
            if score < lowest:
                best, lowest = view, score
        return best, lowest
