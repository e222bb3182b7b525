"""The α score: what a request costs itself, and what it costs the others.

Why: on a continuous-batching engine prefill queues and decoding slows everybody; a request that
only minds itself (α = 0) crowds the fast instances.
What: the instance with the lowest (1−w)·max(own, slack) + w·imposed, all in seconds
(`core.scoring`). Own time within the slack that a slower sibling leaves delays nobody. The weight
w = 1 − (1−α) / (1 + patience · laxity / remaining) is α for a question that cannot wait and grows
with the laxity it has, up to four times the remaining path: who has time gives way. Where the
remaining path is not known (0) the weight is α.
Inputs: outstanding prefill and output tokens, running count, cached prefix, profile; slack,
deadline and remaining path of the question.
Config: `alpha` in [0, 1]; `patience` ≥ 0, 0 for one weight for all; `use_slack`; `placement`,
where in the chosen pool the request waits: the instance's own queue, the pool's (any instance of
the pool may take it), or `auto`: the instance's when its cache saves more than `affinity_seconds`
against another ready instance of the pool.
Trade-offs: best measured at moderate α; needs output estimates and a cache estimate. α too high
starves the request for the others' sake.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hexgen_celery.core.defaults import DEFAULTS
from hexgen_celery.core.dispatch.base import DISPATCH, ready_instances
from hexgen_celery.core.scoring import (
    decode_seconds,
    imposed_seconds,
    prefill_ahead_seconds,
    prefill_seconds,
    uncached_tokens,
)
from hexgen_celery.core.views import ClusterView, InstanceView, RequestView, Target

Placement = Literal["instance", "pool", "auto"]
PLACEMENTS = ("instance", "pool", "auto")

# Laxity beyond so many times the remaining path does not make a question more patient.
MOST_LAXITY = 4.0


def check_alpha(alpha: float) -> None:
    """Raise `ValueError` unless 0 ≤ alpha ≤ 1."""
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")


@dataclass(frozen=True, slots=True)
class OwnParameters:
    """`placement` within the pool; `affinity_seconds` of prefill that make `auto` choose."""

    placement: Placement = DEFAULTS.placement
    affinity_seconds: float = 0.2

    def __post_init__(self) -> None:
        if self.placement not in PLACEMENTS:
            raise ValueError(f"placement must be one of {PLACEMENTS}, got {self.placement!r}")


@dataclass(frozen=True, slots=True)
class AlphaParameters(OwnParameters):
    """`alpha` weighs the delay imposed on others against the request's own completion; `patience`
    raises that weight with the question's laxity; `use_slack` ignores own time a sibling hides."""

    alpha: float = DEFAULTS.alpha
    patience: float = DEFAULTS.patience
    use_slack: bool = DEFAULTS.use_slack

    def __post_init__(self) -> None:
        # The slotted dataclass is a new class, for which a bare super() does not work.
        OwnParameters.__post_init__(self)
        check_alpha(self.alpha)
        if self.patience < 0:
            raise ValueError(f"patience must not be negative, got {self.patience}")


@dataclass(frozen=True, slots=True)
class Cost:
    """One instance's terms for one request, seconds."""

    view: InstanceView
    own: float
    imposed: float
    prefill: float


def cost_on(request: RequestView, view: InstanceView) -> Cost:
    """Both terms of the score."""
    prefill = prefill_seconds(request, view, uncached_tokens(request, view))
    own = prefill_ahead_seconds(view) + prefill + decode_seconds(request, view)
    return Cost(view, own, imposed_seconds(request, view, prefill), prefill)


@DISPATCH.register("alpha", AlphaParameters)
class Alpha:
    """Own completion and imposed delay, weighted by how long the question can wait."""

    name = "alpha"

    def __init__(self, parameters: AlphaParameters, _rng: random.Random) -> None:
        self._alpha = parameters.alpha
        self._patience = parameters.patience
        self._use_slack = parameters.use_slack
        self._placement = parameters.placement
        self._affinity_seconds = parameters.affinity_seconds

    def choose(self, request: RequestView, cluster: ClusterView) -> Target:
        weight = self.weight(request, cluster.now)
        slack = request.slack_seconds if self._use_slack else 0.0

        def score(cost: Cost) -> float:
            return (1.0 - weight) * max(cost.own, slack) + weight * cost.imposed

        costs = [cost_on(request, view) for view in ready_instances(cluster)]
        scores = {cost.view.instance: score(cost) for cost in costs}
        best = min(costs, key=lambda cost: scores[cost.view.instance])
        instance = best.view.instance if self._binds(best, costs) else None
        reasons = {
            "own": best.own,
            "imposed": best.imposed,
            "prefill": best.prefill,
            "slack": slack,
            "weight": weight,
        }
        return Target(best.view.pool, instance, scores[best.view.instance], reasons, scores)

    def weight(self, request: RequestView, now: float) -> float:
        """w: how much the delay of others counts against the request's own."""
        remaining = request.remaining_seconds
        if not self._patience or remaining <= 0.0:
            return self._alpha
        relative = min(MOST_LAXITY, max(0.0, request.deadline - now - remaining) / remaining)
        return 1.0 - (1.0 - self._alpha) / (1.0 + self._patience * relative)

    def _binds(self, best: Cost, costs: Sequence[Cost]) -> bool:
        if self._placement != "auto":
            return self._placement == "instance"
        worst = max(cost.prefill for cost in costs if cost.view.pool == best.view.pool)
        return worst - best.prefill > self._affinity_seconds


@DISPATCH.register("alpha-own", OwnParameters)
class AlphaOwn(Alpha):
    """Selfish earliest completion: the α score at α = 0."""

    name = "alpha-own"

    def __init__(self, parameters: OwnParameters, rng: random.Random) -> None:
        own = AlphaParameters(
            parameters.placement, parameters.affinity_seconds, 0.0, patience=0.0, use_slack=False
        )
        super().__init__(own, rng)
