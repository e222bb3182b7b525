"""How long steps take: the arithmetic of a run of equal steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hexgen_celery.core.profiles import Profile


@dataclass(slots=True)
class Stretch:
    """Consecutive steps of one batch, from `start` on; with prefill work it is a single step.

    Step i (from 1) attends to `context + i · batch` tokens, hence n steps last

        n · (base + per_sequence · batch + per_context · context)
          + per_context · batch · n · (n + 1) / 2 + prefill                  (seconds)
    """

    profile: Profile
    start: float
    steps: int
    batch: int
    context: int
    prefill_seconds: float = 0.0

    @property
    def end(self) -> float:
        """When the last step is complete."""
        return self.start + self.duration(self.steps)

    def duration(self, steps: int) -> float:
        """Seconds that the first `steps` steps take."""
        if steps == 0:
            return 0.0
        if self.batch == 0:
            alone = self.profile.prefill_base + self.prefill_seconds
            return max(alone, self.profile.decode_base)
        first_order, second_order = self._coefficients()
        return steps * (first_order + second_order * steps) + self.prefill_seconds

    def completed(self, now: float) -> int:
        """Steps complete at `now`, at most all of them."""
        elapsed = now - self.start
        if elapsed <= 0:
            return 0
        if self.steps == 1:
            return int(self.start + self.duration(1) <= now)
        first_order, second_order = self._coefficients()
        root = math.sqrt(first_order * first_order + 4 * second_order * elapsed)
        steps = min(self.steps, int(2 * elapsed / (first_order + root)))
        return self._corrected(steps, now)

    def _corrected(self, steps: int, now: float) -> int:
        """Undo the rounding of the square root, so that `completed` agrees with `end`."""
        while steps < self.steps and self.start + self.duration(steps + 1) <= now:
            steps += 1
        while steps and self.start + self.duration(steps) > now:
            steps -= 1
        return steps

    def _coefficients(self) -> tuple[float, float]:
        slope = self.profile.decode_per_context_token * self.batch / 2
        return self.profile.decode_step_seconds(self.batch, self.context) + slope, slope
