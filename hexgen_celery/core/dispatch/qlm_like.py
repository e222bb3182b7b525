"""A reading of QLM (Patke et al., SoCC 2024): waiting-time estimates over virtual queues.

Why: one of the paper's baselines; its code is not at hand, so this is an interpretation.
What: requests with the same model and class form groups, so what counts is the deadline; each
instance is a virtual queue whose waiting time is (output tokens ahead ÷ token throughput). The
request goes where it overruns its deadline least, and among those that meet it where it waits
least.
Inputs: outstanding output tokens, running count, profile, deadline, remaining path.
Config: none.
Trade-offs: deadline-aware and robust to single bad estimates (sums concentrate); ignores prefill,
which dominates with long shared prompts, and caches.
"""

from __future__ import annotations

import random

from hexgen_celery.core.dispatch.base import DISPATCH, ready_instances, to_instance
from hexgen_celery.core.registry import NoParameters
from hexgen_celery.core.views import ClusterView, InstanceView, RequestView, Target


def virtual_wait_seconds(view: InstanceView) -> float:
    """Output tokens ahead divided by the engine's decode throughput at its present batch."""
    batch = max(1, view.running)
    step = view.profile.decode_step_seconds(batch, view.running_context_tokens)
    return view.outstanding_output_tokens * step / batch


@DISPATCH.register("qlm-like")
class QlmLike:
    """Least deadline overrun by estimated waiting time."""

    name = "qlm-like"

    def __init__(self, _parameters: NoParameters, _rng: random.Random) -> None:
        pass

    def choose(self, request: RequestView, cluster: ClusterView) -> Target:
        slack = request.deadline - cluster.now - request.remaining_seconds

        def rank(view: InstanceView) -> tuple[float, float]:
            wait = virtual_wait_seconds(view)
            return max(0.0, wait - slack), wait

        view = min(ready_instances(cluster), key=rank)
        overrun, wait = rank(view)
        return to_instance(view, wait, overrun=overrun)
