"""The paper's dispatch score, as summarised from its text.

Why: the policy this project re-implements; the reference for every comparison.
What: the instance with the largest (1−α)·β/t_queue − α·t_comp, t_queue the sum of t_comp of the
requests waiting there, t_comp = prefill(L_in) + decode(L̂_out) alone on a cold instance.
Inputs: seconds of waiting work, token counts, profile.
Config: `alpha` in [0, 1]; `beta` in s²; `queue_floor_seconds`, the t_queue of an empty queue;
`count_running`, whether what runs belongs to t_queue. An engine that batches continuously hardly
ever lets a request wait, so without it the first term says nothing.
Trade-offs: β mixes units, so the best α moves with load and hardware; what *runs* does not count,
and neither do batching or caches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from hexgen_celery.core.dispatch.alpha import check_alpha
from hexgen_celery.core.dispatch.base import DISPATCH, LowestScore
from hexgen_celery.core.scoring import idle_seconds
from hexgen_celery.core.views import InstanceView, RequestView


@dataclass(frozen=True, slots=True)
class PublishedParameters:
    """α weighs computing time, β (s²) converts the inverse of queueing time to seconds;
    `count_running` adds the work left of those running to t_queue."""

    alpha: float = 0.4
    beta: float = 10.0
    queue_floor_seconds: float = 0.1
    count_running: bool = False

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        for name in ("beta", "queue_floor_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be greater than 0, got {getattr(self, name)}")


@DISPATCH.register("published", PublishedParameters)
class Published(LowestScore):
    """The paper's score, negated so that lower is better."""

    name = "published"

    def __init__(self, parameters: PublishedParameters, _rng: random.Random) -> None:
        self._parameters = parameters

    def score(self, request: RequestView, view: InstanceView) -> float:
        chosen = self._parameters
        ahead = view.waiting_exec_seconds
        if chosen.count_running:
            ahead += view.running_output_tokens * view.profile.decode_step_seconds(1)
        queue = max(ahead, chosen.queue_floor_seconds)
        computing = chosen.alpha * idle_seconds(request, view)
        return computing - (1.0 - chosen.alpha) * chosen.beta / queue
