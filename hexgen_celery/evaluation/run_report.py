"""What a run says: how right it was, by difficulty and database, what it cost, what helped."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hexgen_celery.evaluation.agreement_learning import Stopping, learn_agreement
from hexgen_celery.evaluation.changes import ChangeCounts, changes_in, count_changes
from hexgen_celery.evaluation.run_directory import RunIdentity
from hexgen_celery.evaluation.scoring import Score, Verdict
from hexgen_celery.evaluation.scoring_process import Statement
from hexgen_celery.evaluation.traces import Trace
from hexgen_celery.slo_report import SloReport
from hexgen_celery.workflows.stage_contract import Attempt, Stage

LEAST_QUESTIONS_TO_LEARN = 20


@dataclass(frozen=True, slots=True)
class Costs:
    """Means per question that ended: LLM requests, executions, tokens in and out."""

    requests: float
    executions: float
    input_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run in figures. `reachable`: questions with at least one right candidate."""

    identity: RunIdentity
    traces: tuple[Trace, ...]
    score: Score
    slo: SloReport
    changes: Mapping[str, ChangeCounts]
    costs: Costs
    decided_by: Mapping[str, int]
    left_out: Mapping[str, int]
    saved: Mapping[str, int]
    reachable: int
    agreement: Stopping | None

    @classmethod
    def of(
        cls,
        identity: RunIdentity,
        traces: Sequence[Trace],
        verdicts: Mapping[Statement, Verdict],
    ) -> RunReport:
        """The report on `traces`, whose `statements_of` were judged by `verdicts`."""
        details = [trace.detail for trace in traces]
        return cls(
            identity=identity,
            traces=tuple(traces),
            score=Score(tuple(verdicts[trace.key, trace.sql] for trace in traces)),
            slo=SloReport.of([trace.ending for trace in traces]),
            changes=count_changes(changes_in(traces), verdicts),
            costs=_costs(traces),
            decided_by=Counter(str(each.get("decided_by") or "nothing") for each in details),
            left_out=Counter(text for each in details for text in each.get("left_out") or ()),
            saved=_total(each.get("saved") or {} for each in details),
            reachable=sum(
                any(verdicts[statement].correct for statement in _answers(trace))
                for trace in traces
            ),
            agreement=_learnt(traces),
        )

    def to_json(self) -> dict[str, Any]:
        """Everything but the traces as plain values."""
        costs = self.costs
        return {
            **self.score.to_json(),
            "reachable": self.reachable,
            "lost": self.slo.lost,
            "slo": self.slo.to_json(),
            "changes": {name: counts.to_json() for name, counts in self.changes.items()},
            "requests_per_question": costs.requests,
            "executions_per_question": costs.executions,
            "input_tokens_per_question": costs.input_tokens,
            "output_tokens_per_question": costs.output_tokens,
            "decided_by": dict(self.decided_by),
            "left_out": dict(self.left_out),
            "saved": dict(self.saved),
            "agreement": _agreement_json(self.agreement),
            "run": self.identity.to_json(),
        }


def statements_of(traces: Iterable[Trace]) -> list[Statement]:
    """Every statement that the report needs a verdict on."""
    listed = list(traces)
    changed = [statement for change in changes_in(listed) for statement in change.statements]
    return [*(statement for trace in listed for statement in _answers(trace)), *changed]


def _answers(trace: Trace) -> list[Statement]:
    """The question's answer and its candidates'."""
    candidates = (str(each.get("sql") or "") for each in trace.candidates)
    return [(trace.key, trace.sql), *((trace.key, sql) for sql in candidates if sql)]


def _costs(traces: Sequence[Trace]) -> Costs:
    ended = [trace for trace in traces if trace.detail.get("stages")]
    if not ended:
        return Costs(0.0, 0.0, 0.0, 0.0)
    stages = [list(trace.detail["stages"]) for trace in ended]
    tokens = [trace.detail.get("tokens") or {} for trace in ended]
    sql = [sum(each["stage"] == Stage.EXECUTE_SQL for each in records) for records in stages]
    return Costs(
        requests=statistics.fmean(len(r) - s for r, s in zip(stages, sql, strict=True)),
        executions=statistics.fmean(sql),
        input_tokens=statistics.fmean(int(each.get("input", 0)) for each in tokens),
        output_tokens=statistics.fmean(int(each.get("output", 0)) for each in tokens),
    )


def _total(saved: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in saved:
        total.update(each)
    return dict(total)


def _learnt(traces: Iterable[Trace]) -> Stopping | None:
    """The agreement this run's model needs, from the questions whose candidates all came."""
    ballots = {
        trace.key: [_attempt(each) for each in trace.candidates]
        for trace in traces
        if len(trace.candidates) > 2 and trace.detail.get("decided_by") != "early_agreement"
    }
    return learn_agreement(ballots) if len(ballots) >= LEAST_QUESTIONS_TO_LEARN else None


def _attempt(candidate: Mapping[str, Any]) -> Attempt:
    digest = str(candidate.get("digest") or "")
    empty = not candidate.get("row_count")
    status = str(candidate.get("status") or "failed")
    return Attempt("", 0, str(candidate.get("sql") or ""), status, empty=empty, digest=digest)


def _agreement_json(agreement: Stopping | None) -> dict[str, Any] | None:
    if agreement is None:
        return None
    return {
        "needed": agreement.needed,
        "changed_percent": 100 * agreement.changed,
        "candidates": agreement.executed,
    }
