"""Choosing between recorded candidates by the rules of the workflow, without a model and gold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hexgen_celery.workflows.candidate_branches import Branch, Phase
from hexgen_celery.workflows.result_clusters import agreed, clusters_of
from hexgen_celery.workflows.stage_contract import Attempt


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen attempt (None when no candidate ran) and how many candidates were looked at."""

    chosen: Attempt | None
    executed: int


def select(attempts: Sequence[Attempt], needed: int = 0, *, ordered: bool = False) -> Selection:
    """Take the candidates in turn until `needed` of them agree (0: take them all), then the result
    that the most returned, those with rows first."""
    branches = [
        Branch(number, (attempt,), Phase.SETTLED, 0, requests=1)
        for number, attempt in enumerate(attempts, start=1)
    ]
    if needed:
        for count in range(min(needed, len(branches)), len(branches)):
            winner = agreed(clusters_of(branches[:count], ordered=ordered), needed)
            if winner is not None:
                return Selection(winner.first, count)
    clusters = clusters_of(branches, ordered=ordered)
    return Selection(clusters[0].first if clusters else None, len(branches))
