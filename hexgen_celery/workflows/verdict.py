"""The end of a text-to-sql question: which result is the answer and why, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hexgen_celery.workflows.answer_detail import (
    candidates_json,
    clusters_json,
    last_attempt,
    left_out,
    linked_json,
    warnings_of,
)
from hexgen_celery.workflows.definition import Answer, Failure, Json
from hexgen_celery.workflows.progress import CHOOSE, UNIT_TESTS, Progress
from hexgen_celery.workflows.result_clusters import Cluster, agreement, contending, judged
from hexgen_celery.workflows.savings import Saved
from hexgen_celery.workflows.stage_contract import EvaluationStage, LinkedSchema, Stage

NOTHING_SAVED = Saved()


@dataclass(frozen=True, slots=True)
class Decision:
    """Which rule chose the answer, why in words, and what was saved by not waiting for the rest."""

    by: Literal["agreement", "early_agreement", "choice", "vote", "deadline", "none"]
    why: str
    saved: Saved = NOTHING_SAVED


def answer_by_agreement(progress: Progress, saved: Saved = NOTHING_SAVED) -> Answer:
    """The answer where only one result contends, or enough candidates agree on one."""
    clusters = progress.clusters
    candidates = max(len(progress.branches), progress.economies.candidates)
    votes, needed = clusters[0].votes, progress.options.agreement
    if progress.agreed is None or votes == candidates:
        return _answer(
            progress, clusters[0], Decision("agreement", agreement(clusters, candidates))
        )
    why = f"{votes} of {candidates} candidates returned the same result, and {needed} are enough"
    return _answer(progress, clusters[0], Decision("early_agreement", why, saved))


def answer_by_vote(progress: Progress) -> Answer:
    """The answer of the largest cluster, where there is no time to let the model choose."""
    why = f"no time was left for a choice by the model; {_plurality(progress)}"
    return _answer(progress, progress.clusters[0], Decision("vote", why))


def answer_by_choice(progress: Progress, evaluation: EvaluationStage) -> Answer:
    """The answer the model chose, or the largest cluster's where its choice cannot be read."""
    contenders = judged(contending(progress.clusters), progress.options)
    text = progress.text(CHOOSE)
    choice = None if text is None else evaluation.read_choice(text, len(contenders))
    if choice is None:
        fault = "the model's choice failed" if text is None else "the model's choice is unreadable"
        return _answer(
            progress, contenders[0], Decision("vote", f"{fault}; {_plurality(progress)}")
        )
    cluster = contenders[choice.number - 1]
    why = f"chosen by the model among {len(contenders)} different results"
    full = f"{why}: {choice.reason}" if choice.reason else why
    return _answer(progress, cluster, Decision("choice", full))


def best_effort_answer(progress: Progress) -> Answer | None:
    """The best of what ran before the deadline came: the largest cluster with rows, if any."""
    clusters = progress.clusters
    if not clusters:
        return None
    why = f"the deadline came first; {_plurality(progress)}"
    return _answer(progress, clusters[0], Decision("deadline", why))


def failure(progress: Progress) -> Failure:
    """Why no candidate ran, told by the one that came furthest."""
    furthest = max(progress.branches, key=lambda branch: (len(branch.attempts), branch.requests))
    last = last_attempt(furthest)
    if last is None:
        stage, cause = Stage.CANDIDATE_GENERATION, furthest.failure or "no SQL was written"
    else:
        causes = dict.fromkeys((last.error or last.status, furthest.failure))
        stage, cause = Stage.SELF_CORRECTION, "; then: ".join(filter(None, causes))
    return Failure(
        stage=stage.value,
        cause=f"none of {len(progress.branches)} candidates ran: {cause}",
        last_sql=last.sql if last else "",
        detail=_detail(progress, Decision("none", "no candidate ran"), []),
    )


def _plurality(progress: Progress) -> str:
    votes = progress.clusters[0].votes
    total = sum(cluster.votes for cluster in progress.clusters)
    return f"taken the result that {votes} of {total} executed candidates returned"


def _answer(progress: Progress, cluster: Cluster, decision: Decision) -> Answer:
    chosen = cluster.first
    detail = _detail(progress, decision, warnings_of(chosen))
    return Answer(
        rows_from=chosen.execution,
        sql=chosen.sql,
        detail={**detail, "chosen": {"candidate": cluster.representative.candidate}},
    )


def _detail(progress: Progress, decision: Decision, warnings: list[str]) -> Json:
    clusters = progress.clusters
    linked = progress.linked or LinkedSchema()
    notes = [linked.note] if linked.note else []
    return {
        "why": decision.why,
        "decided_by": decision.by,
        "saved": decision.saved.to_json(),
        "left_out": left_out(progress),
        "candidates": candidates_json(progress.branches, clusters),
        "clusters": clusters_json(clusters),
        "linked": linked_json(linked),
        "unit_tests": UNIT_TESTS in progress.nodes,
        "warnings": [*warnings, *notes],
    }
