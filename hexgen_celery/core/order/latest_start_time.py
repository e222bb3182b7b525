"""Latest start time of the question, with demotion.

Why: least laxity first, without the domino effect of hopeless questions.
What: key = deadline − estimated remaining path. A request is demoted once even an optimistic path
(10th percentile) misses the deadline; `core.order.claim` serves demoted ones behind the feasible
ones and in a guaranteed share of the claims.
Inputs: deadline, remaining path (mean and 10th percentile).
Config: none here; the demoted share is a setting of the claim rule.
Trade-offs: raises attainment in overload and lengthens the tail of those already late.
"""

from __future__ import annotations

from hexgen_celery.core.order.base import ORDER
from hexgen_celery.core.registry import NoParameters
from hexgen_celery.core.urgency import latest_start
from hexgen_celery.core.views import RequestView


@ORDER.register("latest-start")
class LatestStart:
    """Latest start of the question, demoting what cannot be saved."""

    name = "latest-start"

    def __init__(self, _parameters: NoParameters) -> None:
        pass

    def key(self, request: RequestView, _exec_seconds: float) -> float:
        return latest_start(request.deadline, request.remaining_seconds)

    def feasible_until(self, request: RequestView) -> float:
        return latest_start(request.deadline, request.remaining_p10_seconds)
