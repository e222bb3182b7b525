"""The paper's urgency by stage budget.

Why: the published order.
What: U = t_exec − (budget − waited), largest first, which equals ascending
ready time + budget − t_exec.
Inputs: ready time, stage budget (`core.budgets`), t_exec where it waits.
Config: none.
Trade-offs: a request early in a long question gets a small share and overtakes requests of
questions with less laxity; measured worse than the question's own deadline.
"""

from __future__ import annotations

from hexgen_celery.core.order.base import ORDER, WithoutDemotion
from hexgen_celery.core.views import RequestView


@ORDER.register("stage-budget")
class StageBudget(WithoutDemotion):
    """Latest start of the request within its stage budget."""

    name = "stage-budget"

    def key(self, request: RequestView, exec_seconds: float) -> float:
        return request.ready_at + request.stage_budget_seconds - exec_seconds
