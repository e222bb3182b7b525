"""What an answer tells beside its rows: the candidates, the vote, the linked schema, warnings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from hexgen_celery.errors import StatementRejected
from hexgen_celery.sql.guard import check_statement
from hexgen_celery.workflows.candidate_branches import Branch
from hexgen_celery.workflows.definition import Json
from hexgen_celery.workflows.degradation import TESTS_KIND
from hexgen_celery.workflows.join_check import unconnected_tables
from hexgen_celery.workflows.progress import UNIT_TESTS, Progress
from hexgen_celery.workflows.result_clusters import Cluster
from hexgen_celery.workflows.stage_contract import Attempt, LinkedSchema

DIGEST_CHARACTERS = 12


def candidates_json(branches: Iterable[Branch], clusters: Iterable[Cluster]) -> list[Json]:
    """Each candidate by its best attempt: SQL, status or error, and the cluster it voted for."""
    voted = {member.candidate: cluster for cluster in clusters for member in cluster.members}
    return [_candidate_json(branch, voted.get(branch.number)) for branch in branches]


def _candidate_json(branch: Branch, cluster: Cluster | None) -> Json:
    shown = branch.executed or last_attempt(branch)
    return {
        "candidate": branch.number,
        "node": shown.request if shown else f"candidate.{branch.number}",
        "execution": shown.execution if shown else "",
        "sql": shown.sql if shown else "",
        "written": shown.written if shown else "",
        "status": shown.status if shown else "failed",
        "error": (shown.error if shown else "") or branch.failure,
        "row_count": shown.row_count if shown else 0,
        "digest": shown.digest[:DIGEST_CHARACTERS] if shown else "",
        "rounds": branch.rounds,
        "healed": branch.healed,
        "repairs": list(shown.repairs) if shown else [],
        "fits": list(shown.fits) if shown else [],
        "first": _first_json(branch),
        "cluster": cluster.number if cluster else None,
        "votes": cluster.votes if cluster else 0,
    }


def _first_json(branch: Branch) -> Json:
    """What the candidate was before any correction."""
    first = branch.attempts[0] if branch.attempts else None
    return {"sql": first.sql, "status": first.status} if first else {}


def left_out(progress: Progress) -> list[str]:
    """The optional work that was left out because time was short."""
    done = {TESTS_KIND} if UNIT_TESTS in progress.nodes else set[str]()
    return [text for text in progress.economies.told() if text not in done]


def clusters_json(clusters: Iterable[Cluster]) -> list[Json]:
    """Each group of equal results, in the order in which they were judged."""
    return [
        {
            "cluster": cluster.number,
            "votes": cluster.votes,
            "candidates": [member.candidate for member in cluster.members],
            "row_count": cluster.first.row_count,
            "empty": cluster.empty,
            "digest": cluster.first.digest[:DIGEST_CHARACTERS],
            "sql": cluster.first.sql,
        }
        for cluster in clusters
    ]


def linked_json(linked: LinkedSchema) -> Json:
    """What schema linking named."""
    return {
        "keywords": list(linked.keywords),
        "tables": list(linked.tables),
        "columns": list(linked.columns),
        "values": [asdict(value) for value in linked.values],
        "by_rules": linked.by_rules,
        "note": linked.note,
    }


def warnings_of(attempt: Attempt) -> list[str]:
    """What a reader of the answer should doubt."""
    warnings = []
    if attempt.empty:
        warnings.append("the result is empty")
    if attempt.truncated:
        warnings.append(f"the result was cut at {attempt.row_count} rows")
    loose = _unconnected(attempt.sql)
    if loose:
        warnings.append(f"possible cross join: nothing connects {', '.join(loose)} to the rest")
    return warnings


def last_attempt(branch: Branch) -> Attempt | None:
    """The branch's latest attempt."""
    return branch.attempts[-1] if branch.attempts else None


def _unconnected(sql: str) -> tuple[str, ...]:
    try:
        tree = check_statement(sql).tree
    except StatementRejected:
        return ()
    return unconnected_tables(tree) if tree is not None else ()
