"""How a benchmark run is made, as the command line says it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of one run."""

    slo: float
    candidates: int
    rounds: int
    agreement: int | None
    parallel: int
    timings: int
    replay: Path | None
    seed: int
    speed: float
    out: Path | None

    @property
    def pipeline(self) -> dict[str, Any]:
        """The options that every question is asked with."""
        given = {} if self.agreement is None else {"agreement": self.agreement}
        return {"candidates": self.candidates, "correction_rounds": self.rounds, **given}


_OPTIONS = (
    click.option("--db", "database", help="Only questions about this database."),
    click.option("--limit", type=click.IntRange(1), help="Only the first so many questions."),
    click.option(
        "--replay",
        type=click.Path(exists=True, path_type=Path),
        help="Answer from these prediction files by emulated servers instead of a model.",
    ),
    click.option("--slo", default=300.0, show_default=True, help="Seconds for each question."),
    click.option("--candidates", default=3, show_default=True, type=click.IntRange(1, 16)),
    click.option("--rounds", default=2, show_default=True, type=click.IntRange(0, 10)),
    click.option(
        "--agreement",
        type=click.IntRange(0, 16),
        help="Equal results that decide early, 0 for none; by default as learnt of the model.",
    ),
    click.option(
        "--parallel", default=16, show_default=True, type=click.IntRange(1), help="At a time."
    ),
    click.option(
        "--timings",
        default=0,
        show_default=True,
        type=click.IntRange(0),
        help="Times that right answers are timed for R-VES (BIRD takes 100).",
    ),
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="Directory of the run; the same run is continued there. Default: a new one.",
    ),
    click.option("--seed", default=7, show_default=True, help="Which file plays which part."),
    click.option(
        "--speed", default=20.0, show_default=True, help="How much faster emulated time runs."
    ),
)


def run_options(command: F) -> F:
    """The options of every benchmark run."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
