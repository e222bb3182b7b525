"""Virtual token counters (Sheng et al., OSDI 2024), read as dispatch.

Why: one of the paper's baselines; fairness between tenants instead of deadlines.
What: each instance counts the weighted tokens it was given per tenant; a request goes where its
tenant has been served least. A tenant new to an instance starts at the lowest counter there, as
VTC lifts a returning client, so that it gains no credit by staying away.
Inputs: tenant, input tokens, expected output tokens.
Config: `input_weight`, `output_weight`, the cost of a prompt and of a generated token.
Trade-offs: spreads every tenant evenly; blind to speed, deadlines and caches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from hexgen_celery.core.dispatch.base import DISPATCH, ready_instances, to_instance
from hexgen_celery.core.views import ClusterView, InstanceView, RequestView, Target


@dataclass(frozen=True, slots=True)
class VtcParameters:
    """Weights of a prompt token and of a generated token (the publication's 1 and 2)."""

    input_weight: float = 1.0
    output_weight: float = 2.0


@DISPATCH.register("vtc", VtcParameters)
class Vtc:
    """Where the tenant has been served least."""

    name = "vtc"

    def __init__(self, parameters: VtcParameters, _rng: random.Random) -> None:
        self._parameters = parameters
        self._served: dict[str, dict[str, float]] = {}

    def choose(self, request: RequestView, cluster: ClusterView) -> Target:
        ready = ready_instances(cluster)
        view = min(ready, key=lambda view: self._counter(view, request.tenant))
        before = self._counter(view, request.tenant)
        weights = self._parameters
        cost = weights.input_weight * request.input_tokens
        cost += weights.output_weight * request.output_tokens
        self._served.setdefault(view.instance, {})[request.tenant] = before + cost
        return to_instance(view, before)

    def _counter(self, view: InstanceView, tenant: str) -> float:
        counters = self._served.get(view.instance, {})
        lift = min(counters.values(), default=0.0)
        return counters.get(tenant, lift)
