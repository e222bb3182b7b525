"""Where a question stands, as plain values. Pure."""

from __future__ import annotations

from hexgen_celery.coordination.state import WorkflowRecord
from hexgen_celery.coordination.terminal import question_report, stage_report
from hexgen_celery.workflows.definition import Failure, Json


def workflow_report(record: WorkflowRecord) -> Json:
    """The question, its status and times (Unix seconds), its nodes, and the cause if it failed."""
    report: Json = {
        **question_report(record),
        "started_at": record.started_at,
        "nodes": [stage_report(node) for node in record.nodes.values()],
    }
    if isinstance(record.outcome, Failure):
        report["cause"] = record.outcome.cause
    return report
