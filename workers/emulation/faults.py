"""Faults on purpose, so that clients can be tested against a server that misbehaves."""

from __future__ import annotations

import random
from dataclasses import dataclass

from workers.emulation.api_error import ApiError


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Shares of requests (0 … 1) that fail at once with `status`, or are cut off in mid-stream."""

    fail_rate: float = 0.0
    status: int = 503
    retry_after: float | None = None
    cut_rate: float = 0.0
    seed: int = 0


class FaultInjector:
    """Draws faults in a repeatable order."""

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan
        self._random = random.Random(plan.seed)

    def maybe_fail(self) -> None:
        """Raise the planned ApiError in the planned share of calls."""
        plan = self._plan
        if plan.fail_rate and self._random.random() < plan.fail_rate:
            raise ApiError(plan.status, "injected fault", retry_after=plan.retry_after)

    def cuts(self) -> bool:
        """Whether to close this connection after the first token."""
        return bool(self._plan.cut_rate) and self._random.random() < self._plan.cut_rate
