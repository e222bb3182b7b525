"""The end of a question as its client sees it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hexgen_celery.coordination.state import StoredNode, WorkflowRecord
from hexgen_celery.outbox import TerminalResult
from hexgen_celery.references import RequestRef
from hexgen_celery.workflows.candidate_branches import error_text
from hexgen_celery.workflows.definition import (
    Answer,
    Failure,
    Json,
    NodeKind,
    NodeStatus,
    SqlCall,
    WorkflowStatus,
)

_TOKENS = ("input_tokens", "output_tokens", "cached_tokens")
_RESULT_FIELDS = (*_TOKENS, "finish_reason", "first_token_seconds")
_PLACE_FIELDS = ("queue", "instance", "worker")


def terminal_result(record: WorkflowRecord, rows: Json) -> TerminalResult:
    """The result of a workflow that has ended; `rows` is the bulk of the answer's node."""
    outcome = record.outcome
    specific = (
        _answer(record, outcome, rows) if isinstance(outcome, Answer) else _failure(record, outcome)
    )
    detail = outcome.detail if outcome else {}
    body = {**detail, **specific, **_common(record)}
    submission = record.submission
    return TerminalResult(
        submission.workflow_id, record.status, body, submission, tuple(_dropped(record))
    )


def _dropped(record: WorkflowRecord) -> Iterator[RequestRef]:
    for node_id, node in record.nodes.items():
        if node.status is NodeStatus.DROPPED and node.record.get("queue"):
            yield RequestRef(record.submission.workflow_id, node_id, node.attempt)


def last_sql(nodes: Iterable[StoredNode]) -> str:
    """The SQL most recently given to a database, "" if none was."""
    calls = [node.spec.call for node in nodes if node.record.get("claimed_at")]
    statements = [call.sql for call in calls if isinstance(call, SqlCall) and call.sql]
    return statements[-1] if statements else ""


def stage_reached(nodes: Iterable[StoredNode]) -> str:
    """The stage of the last node that could start, "" if none could."""
    stages = [node.spec.stage for node in nodes if node.record.get("ready_at")]
    return stages[-1] if stages else ""


def last_error(nodes: Iterable[StoredNode]) -> str:
    """The error of the most recent request attempt that ended with one, "" if none did."""
    failed = [node for node in nodes if "error" in node.outcome]
    latest = max(failed, key=_tried_at, default=None)
    return error_text(latest.outcome["error"]) if latest else ""


def deadline_cause(record: WorkflowRecord) -> str:
    """Why a question expired: its deadline, and what went wrong last on the way there."""
    passed = f"the deadline of {record.submission.slo_seconds:g} s passed"
    error = last_error(record.nodes.values())
    return f"{passed}; the last request error was: {error}" if error else passed


def question_report(record: WorkflowRecord) -> Json:
    """What was asked and how that stands, as every report has it. Times in Unix seconds."""
    submission = record.submission
    return {
        "workflow_id": submission.workflow_id,
        "workflow": submission.workflow,
        "status": str(record.status),
        "question": submission.question,
        "database": submission.database,
        "tenant": submission.tenant,
        "slo_class": submission.slo_class,
        "slo_seconds": submission.slo_seconds,
        "submitted_at": submission.submitted_at,
        "finished_at": record.finished_at,
        "deadline": submission.deadline,
        "best_effort": record.best_effort,
    }


def stage_report(node: StoredNode) -> Json:
    """One node as reports list it: seconds waiting and working, tokens, place."""
    times = node.record
    result = node.outcome.get("result") or {}
    report: dict[str, Any] = {
        "node": node.spec.id,
        "stage": node.spec.stage,
        "step": node.spec.step,
        "kind": str(node.spec.kind),
        "status": str(node.status),
        "attempt": node.attempt,
        "queued_seconds": _between(times.get("ready_at"), times.get("claimed_at")),
        "seconds": _between(times.get("claimed_at"), times.get("finished_at")),
        **{name: times[name] for name in _PLACE_FIELDS if times.get(name)},
        **{name: result[name] for name in _RESULT_FIELDS if name in result},
    }
    if node.spec.kind is NodeKind.SQL and "status" in result:
        report["execution"] = result["status"]
    if "error" in node.outcome:
        report["error"] = node.outcome["error"]
    return report


def _answer(record: WorkflowRecord, answer: Answer, rows: Json) -> Json:
    node = record.nodes.get(answer.rows_from or "")
    result = (node.outcome.get("result") or {}) if node else {}
    return {
        "columns": rows.get("columns", result.get("columns", [])),
        "rows": rows.get("rows", []),
        "truncated": bool(rows.get("truncated", result.get("truncated", False))),
        "sql": answer.sql,
        "candidates": answer.detail.get("candidates", []),
        "why": answer.detail.get("why", ""),
    }


def _failure(record: WorkflowRecord, failure: Failure | None) -> Json:
    nodes = record.nodes.values()
    return {
        "stage": (failure.stage if failure else "") or stage_reached(nodes),
        "cause": failure.cause if failure else "",
        "last_sql": (failure.last_sql if failure else "") or last_sql(nodes),
    }


def _common(record: WorkflowRecord) -> Json:
    submission = record.submission
    finished = record.finished_at or submission.submitted_at
    answered = record.status is WorkflowStatus.ANSWERED
    detail = record.outcome.detail if record.outcome else {}
    return {
        **question_report(record),
        "finished_at": finished,
        "latency_seconds": round(finished - submission.submitted_at, 4),
        "deadline_met": answered and finished <= submission.deadline and not record.best_effort,
        "warnings": list(detail.get("warnings", [])),
        "stages": [stage_report(node) for node in record.nodes.values() if _ran(node)],
        "tokens": _tokens(record.nodes.values()),
    }


def _ran(node: StoredNode) -> bool:
    return node.status in (NodeStatus.DONE, NodeStatus.FAILED)


def _tokens(nodes: Iterable[StoredNode]) -> dict[str, int]:
    results = [node.outcome.get("result") or {} for node in nodes]
    return {
        name.removesuffix("_tokens"): sum(_count(result.get(name)) for result in results)
        for name in _TOKENS
    }


def _count(value: object) -> int:
    """Servers may leave a count out, or worse; that must not keep an answer from its client."""
    return value if isinstance(value, int) else 0


def _tried_at(node: StoredNode) -> float:
    """When its last failed attempt ended (Unix seconds); its next one is ready from then on."""
    field = "finished_at" if node.status is NodeStatus.FAILED else "ready_at"
    return float(node.record.get(field) or 0.0)


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else round(end - start, 4)
