"""What corrections, repairs and fits did to candidates: healed (wrong before, right after) and
harmed (right before, wrong after), judged against gold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hexgen_celery.evaluation.scoring import Verdict
from hexgen_celery.evaluation.scoring_process import Statement
from hexgen_celery.evaluation.traces import Trace
from hexgen_celery.workflows.definition import Json


@dataclass(frozen=True, slots=True)
class Change:
    """One candidate's SQL before and after; `by` says what changed it."""

    key: str
    by: str
    before: str
    after: str

    @property
    def statements(self) -> tuple[Statement, Statement]:
        """Both as statements to judge."""
        return (self.key, self.before), (self.key, self.after)


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """How many candidates were changed, and how many of them for better and for worse."""

    changed: int = 0
    healed: int = 0
    harmed: int = 0

    def to_json(self) -> dict[str, Any]:
        """The counts as plain values."""
        return {"changed": self.changed, "healed": self.healed, "harmed": self.harmed}


def changes_in(traces: Iterable[Trace]) -> list[Change]:
    """Every candidate that was corrected by the model, or edited by rules."""
    return [
        change
        for trace in traces
        for candidate in trace.candidates
        for change in _of(trace.key, candidate)
    ]


def _of(key: str, candidate: Json) -> Iterator[Change]:
    sql, first = str(candidate.get("sql") or ""), candidate.get("first") or {}
    if candidate.get("rounds") and first.get("sql") != sql:
        yield Change(key, "correction", str(first.get("sql") or ""), sql)
    written = str(candidate.get("written") or "")
    for by in ("repairs", "fits"):
        if written and candidate.get(by):
            yield Change(key, by, written, sql)


def count_changes(
    changes: Iterable[Change], verdicts: Mapping[Statement, Verdict]
) -> dict[str, ChangeCounts]:
    """The counts by what made the changes; statements that nobody could judge count as wrong."""
    counts: dict[str, ChangeCounts] = {
        name: ChangeCounts() for name in ("correction", "repairs", "fits")
    }
    for change in changes:
        before, after = (_right(statement, verdicts) for statement in change.statements)
        old = counts[change.by]
        counts[change.by] = ChangeCounts(
            old.changed + 1,
            old.healed + (after and not before),
            old.harmed + (before and not after),
        )
    return counts


def _right(statement: Statement, verdicts: Mapping[Statement, Verdict]) -> bool:
    verdict = verdicts.get(statement)
    return verdict is not None and verdict.correct
