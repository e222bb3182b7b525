"""Where a question stands, as plain values. Pure."""

from __future__ import annotations

from hexgen_celery.coordination.state import WorkflowRecord
from hexgen_celery.coordination.terminal import stage_report
from hexgen_celery.workflows.definition import Failure, Json


def workflow_report(record: WorkflowRecord) -> Json:
    """The question, its status and times (Unix seconds), its nodes, and the cause if it failed."""
    submission = record.submission
    report: Json = {
        "workflow_id": submission.workflow_id,
        "workflow": submission.workflow,
        "status": str(record.status),
        "question": submission.question,
        "database": submission.database,
        "tenant": submission.tenant,
        "slo_seconds": submission.slo_seconds,
        "submitted_at": submission.submitted_at,
        "started_at": record.started_at,
        "finished_at": record.finished_at,
        "deadline": submission.deadline,
        "best_effort": record.best_effort,
        "nodes": [stage_report(node) for node in record.nodes.values()],
    }
    if isinstance(record.outcome, Failure):
        report["cause"] = record.outcome.cause
    return report
