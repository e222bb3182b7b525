"""What a finished question teaches, told from its record and trace. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hexgen_celery.coordination.state import StoredNode, WorkflowRecord
from hexgen_celery.core.estimates import Estimate, Interval
from hexgen_celery.workflows.definition import Json, LlmCall, NodeStatus, WorkflowStatus


@dataclass(frozen=True, slots=True)
class RequestLesson:
    """One completed LLM request and what was believed of it when it was sent.

    Tokens and seconds. `input_tokens` is the server's count of the prompt, `input_counted` ours by
    the length of its text. `cached_predicted` is the shadow cache's own belief in the
    server's tokens, before correction. Beliefs are None where the trace does not hold them (any
    more).
    """

    node_id: str
    stage: str
    step: str
    database: str
    instance: str
    output_tokens: float
    cached_tokens: float
    input_tokens: float = 0.0
    input_counted: float = 0.0
    output_believed: Estimate | None = None
    remaining_believed: Estimate | None = None
    cached_predicted: float | None = None


@dataclass(frozen=True, slots=True)
class QuestionLesson:
    """One finished question. `whole`: it ran to its end, so that its path is one to learn from."""

    workflow: str
    database: str
    requests: tuple[RequestLesson, ...]
    intervals: tuple[Interval, ...]
    whole: bool


def question_lesson(record: WorkflowRecord, trace: Iterable[Json]) -> QuestionLesson:
    """What `record` teaches; `trace` are its events."""
    sent = {
        (str(event["node"]), event["attempt"]): event for event in trace if event["event"] == "sent"
    }
    done = {name: node for name, node in record.nodes.items() if node.status is NodeStatus.DONE}
    database = record.submission.database
    return QuestionLesson(
        workflow=record.submission.workflow,
        database=database,
        requests=tuple(
            _request_lesson(node, call, database, sent.get((name, node.attempt), {}))
            for name, node in done.items()
            if isinstance(call := node.spec.call, LlmCall)
        ),
        intervals=tuple(filter(None, (node.interval for node in done.values()))),
        whole=record.status is WorkflowStatus.ANSWERED and not record.best_effort,
    )


def _request_lesson(
    node: StoredNode, call: LlmCall, database: str, sent: Mapping[str, object]
) -> RequestLesson:
    result = node.outcome.get("result") or {}
    instance = str(node.record.get("instance") or "")
    predicted = sent.get("cached") if sent.get("instance") == instance else None
    return RequestLesson(
        node_id=node.spec.id,
        stage=node.spec.stage,
        step=node.spec.step,
        database=database,
        instance=instance,
        output_tokens=float(result.get("output_tokens", 0)),
        cached_tokens=float(result.get("cached_tokens", 0)),
        input_tokens=float(result.get("input_tokens", 0)),
        input_counted=float(call.input_tokens),
        output_believed=_estimate(sent, "output"),
        remaining_believed=_estimate(sent, "remaining"),
        cached_predicted=float(str(predicted)) if predicted is not None else None,
    )


def _estimate(sent: Mapping[str, object], name: str) -> Estimate | None:
    values = [sent.get(each) for each in (name, f"{name}_p10", f"{name}_p90")]
    if any(value is None for value in values):
        return None
    return Estimate(*(float(str(value)) for value in values))
