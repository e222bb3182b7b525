"""The paper's dispatch score, as its authors' simulator codes it.

Why: text and code differ; both are kept so that each can be compared.
What: the instance with the largest α·T(base)/T(e) − (1−α)·d_e·W_e/W_base. `base` is the fastest
ready instance for this request, T the request's time alone, W the seconds of work *ever* assigned,
d_e a discount for slower GPUs.
Inputs: seconds ever assigned, token counts, profile.
Config: `alpha` in [0, 1]; `slow_discount`, the authors' hard-coded 0.5.
Trade-offs: W never falls when work completes, so an instance that joins late is flooded and the
score balances history instead of load. The authors' T is one constant per stage and GPU type; here
it comes from the request's own tokens, which only sharpens the ratio.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from hexgen_celery.core.dispatch.alpha import check_alpha
from hexgen_celery.core.dispatch.base import DISPATCH, ready_instances, to_instance
from hexgen_celery.core.scoring import idle_seconds
from hexgen_celery.core.views import ClusterView, InstanceView, RequestView, Target


@dataclass(frozen=True, slots=True)
class PublishedCodeParameters:
    """α weighs relative speed against relative assigned work."""

    alpha: float = 0.4
    slow_discount: float = 0.5

    def __post_init__(self) -> None:
        check_alpha(self.alpha)


@DISPATCH.register("published-code", PublishedCodeParameters)
class PublishedCode:
    """The authors' code: relative speed against work ever assigned."""

    name = "published-code"

    def __init__(self, parameters: PublishedCodeParameters, _rng: random.Random) -> None:
        self._parameters = parameters

    def choose(self, request: RequestView, cluster: ClusterView) -> Target:
        ready = ready_instances(cluster)
        base = min(ready, key=lambda view: idle_seconds(request, view))

        def value(view: InstanceView) -> float:
            return self._value(request, view, base)

        view = max(ready, key=value)
        return to_instance(view, value(view))

    def _value(self, request: RequestView, view: InstanceView, base: InstanceView) -> float:
        alpha = self._parameters.alpha
        speed = idle_seconds(request, base) / idle_seconds(request, view)
        discount = 1.0 if view.gpu == base.gpu else self._parameters.slow_discount
        # Before any work was assigned to the base the authors' ratio is undefined; one second
        # keeps the comparison by absolute work.
        load = view.assigned_seconds / max(base.assigned_seconds, 1.0)
        return alpha * speed - (1.0 - alpha) * discount * load
