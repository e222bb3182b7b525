"""The end of a text-to-sql question: which result is the answer and why, or why there is none."""

from __future__ import annotations

from hexgen_celery.workflows.answer_detail import (
    candidates_json,
    clusters_json,
    last_attempt,
    linked_json,
    warnings_of,
)
from hexgen_celery.workflows.definition import Answer, Failure, Json
from hexgen_celery.workflows.progress import CHOOSE, UNIT_TESTS, Progress
from hexgen_celery.workflows.result_clusters import Cluster, agreement, contending
from hexgen_celery.workflows.stage_contract import EvaluationStage, LinkedSchema, Stage


def answer_by_agreement(progress: Progress) -> Answer:
    """The answer where only one result contends."""
    clusters = progress.clusters
    why = agreement(clusters, len(progress.branches))
    return _answer(progress, clusters[0], why)


def answer_by_choice(progress: Progress, evaluation: EvaluationStage) -> Answer:
    """The answer the model chose, or the largest cluster's where its choice cannot be read."""
    contenders = contending(progress.clusters)
    text = progress.text(CHOOSE)
    choice = None if text is None else evaluation.read_choice(text, len(contenders))
    if choice is None:
        fault = "the model's choice failed" if text is None else "the model's choice is unreadable"
        return _answer(progress, contenders[0], f"{fault}; {_plurality(progress)}")
    cluster = contenders[choice.number - 1]
    why = f"chosen by the model among {len(contenders)} different results"
    return _answer(progress, cluster, f"{why}: {choice.reason}" if choice.reason else why)


def best_effort_answer(progress: Progress) -> Answer | None:
    """The best of what ran before the deadline came: the largest cluster with rows, if any."""
    clusters = progress.clusters
    if not clusters:
        return None
    return _answer(progress, clusters[0], f"the deadline came first; {_plurality(progress)}")


def failure(progress: Progress) -> Failure:
    """Why no candidate ran, told by the one that came furthest."""
    furthest = max(progress.branches, key=lambda branch: (len(branch.attempts), branch.requests))
    last = last_attempt(furthest)
    if last is None:
        stage, cause = Stage.CANDIDATE_GENERATION, furthest.failure or "no SQL was written"
    else:
        stage, cause = Stage.SELF_CORRECTION, furthest.failure or last.error or last.status
    return Failure(
        stage=stage.value,
        cause=f"none of {len(progress.branches)} candidates ran: {cause}",
        last_sql=last.sql if last else "",
        detail=_detail(progress, "no candidate ran", []),
    )


def _plurality(progress: Progress) -> str:
    votes = progress.clusters[0].votes
    total = sum(cluster.votes for cluster in progress.clusters)
    return f"taken the result that {votes} of {total} executed candidates returned"


def _answer(progress: Progress, cluster: Cluster, why: str) -> Answer:
    chosen = cluster.first
    detail = _detail(progress, why, warnings_of(chosen))
    return Answer(
        rows_from=chosen.execution,
        sql=chosen.sql,
        detail={**detail, "chosen": {"candidate": cluster.members[0].candidate}},
    )


def _detail(progress: Progress, why: str, warnings: list[str]) -> Json:
    clusters = progress.clusters
    linked = progress.linked or LinkedSchema()
    notes = [linked.note] if linked.note else []
    return {
        "why": why,
        "candidates": candidates_json(progress.branches, clusters),
        "clusters": clusters_json(clusters),
        "linked": linked_json(linked),
        "unit_tests": UNIT_TESTS in progress.nodes,
        "warnings": [*warnings, *notes],
    }
