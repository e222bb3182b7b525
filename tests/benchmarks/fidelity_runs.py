"""Runs of the fidelity benchmark: measured, predicted, kept as files and read again."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from hexgen_celery.core.profiles import Profile
from hexgen_celery.simulator.results import percentile
from tests.benchmarks.fidelity_timeline import (
    Anatomist,
    QuestionTimes,
    RequestTimes,
    share_errors,
)


@dataclass(frozen=True, slots=True)
class FidelityRun:
    """One run at one load. `rate` in questions per second; `bystanders`: see `Bystanders`."""

    load: str
    seed: int
    rate: float
    bystanders: float
    real: tuple[QuestionTimes, ...]
    simulated: tuple[QuestionTimes, ...]
    SIDES: ClassVar = ("real", "simulated")

    def errors(self) -> dict[str, float]:
        """Per cent by which the predicted figure misses the real one, either way."""
        seen, expected = figures(self.real), figures(self.simulated)
        return {name: 100 * abs(expected[name] / seen[name] - 1) for name in seen}

    def shares(self, profile: Profile) -> dict[str, float]:
        """Where the error of the mean comes from: per cent of the real mean, signed."""
        return share_errors(Anatomist(self.real, profile), Anatomist(self.simulated, profile))

    def save(self, directory: Path) -> None:
        """Keep it as a file."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.load}-{self.seed}.json"
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """A run that was kept."""
        plain = json.loads(path.read_text(encoding="utf-8"))
        real, simulated = (tuple(map(_question, plain.pop(side))) for side in cls.SIDES)
        return cls(**plain, real=real, simulated=simulated)


def read_runs(directory: Path) -> list[FidelityRun]:
    """All that were kept in `directory`, by load and seed."""
    return [FidelityRun.read(path) for path in sorted(directory.glob("*-*.json"))]


def figures(questions: Sequence[QuestionTimes]) -> dict[str, float]:
    """Mean and 95th percentile of the latencies, in seconds."""
    latencies = [question.latency for question in questions]
    return {"mean": statistics.fmean(latencies), "p95": percentile(latencies, 0.95)}


def _question(plain: dict[str, Any]) -> QuestionTimes:
    requests = tuple(RequestTimes(**one) for one in plain.pop("requests"))
    return QuestionTimes(**plain, requests=requests)
