"""How many tokens a request will generate, learnt online per (step, database)."""

from __future__ import annotations

from typing import Any

from hexgen_celery.core.estimates.samples import BackOff, Estimate, LearningRates

# What is assumed of a request when nothing at all was observed: short answers are common, long
# candidates possible.
UNKNOWN_OUTPUT = Estimate(128.0, 8.0, 768.0)

Chain = list[tuple[str, ...]]


class OutputEstimator:
    """Output tokens: decayed mean, p10 and p90, backing off (step, database) → step → stage → all.

    Training on recorded requests gives the priors; the same call learns online.
    """

    def __init__(
        self, prior: Estimate = UNKNOWN_OUTPUT, rates: LearningRates | None = None
    ) -> None:
        self._levels = BackOff(prior, rates or LearningRates())

    def observe(self, stage: str, step: str, database: str, output_tokens: float) -> None:
        """Learn from a finished request."""
        self._levels.observe(_chain(stage, step, database), output_tokens)

    def knows(self, step: str) -> bool:
        """Whether any request of this step was observed."""
        return ("step", step) in self._levels.samples

    def estimate(self, stage: str, step: str, database: str) -> Estimate:
        """Tokens the request is expected to generate."""
        return self._levels.estimate(_chain(stage, step, database))

    def to_json(self) -> dict[str, Any]:
        """The whole state as plain JSON values."""
        return {"prior": list(self._levels.prior), "samples": self._levels.to_rows()}

    @classmethod
    def from_json(
        cls, state: dict[str, Any], rates: LearningRates | None = None
    ) -> OutputEstimator:
        """The estimator that `to_json` described."""
        estimator = cls(Estimate(*state["prior"]), rates)
        estimator._levels.load_rows(state["samples"])
        return estimator


def _chain(stage: str, step: str, database: str) -> Chain:
    return [("database", step, database), ("step", step), ("stage", stage), ("all",)]
