"""A question as Redis holds it, turned into the rows that the store keeps of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hexgen_celery.coordination.state import StoredNode, WorkflowRecord
from hexgen_celery.coordination.terminal import terminal_result
from hexgen_celery.store.models import (
    Base,
    Candidate,
    Decision,
    Execution,
    Request,
    Tenant,
    Workflow,
)
from hexgen_celery.store.values import TOKENS, clean, clean_text, count, moment
from hexgen_celery.tracing.export import shared_tokens
from hexgen_celery.workflows.definition import (
    Answer,
    Json,
    LlmCall,
    SqlCall,
    WorkflowStatus,
)

ENDINGS = ("done", "failed", "retried", "dropped")
SENT_ABOUT = frozenset({"t", "event", "node", "attempt", "queue", "instance", "policy"})
_COUNTED = frozenset({*TOKENS, "status", "row_count"})
_PLACES = frozenset({"stage", "step", "queue", "instance", "worker"})
_BODY_LEFT_OUT = frozenset(
    {
        *("workflow_id", "workflow", "status", "question", "database", "tenant", "slo_class"),
        *("slo_seconds", "submitted_at", "finished_at", "deadline", "best_effort", "sql", "stage"),
        *("deadline_met", "cause", "latency_seconds", "columns", "rows", "candidates", "stages"),
        "tokens",
    }
)
_TENANT_CHARACTERS = 200

Row = dict[str, Any]
Events = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class QuestionRows:
    """All rows of one question, by table. `whole`: it has ended and everything was known."""

    workflow_id: str
    rows: Mapping[type[Base], list[Row]]
    whole: bool = True

    @property
    def count(self) -> int:
        """How many rows these are."""
        return sum(len(rows) for rows in self.rows.values())


def question_rows(
    record: WorkflowRecord, events: Iterable[Json], deployment: str, now: float
) -> QuestionRows:
    """The rows of a question that has ended; `events` are its trace, `now` the recording's time."""
    attempts = _attempts(events)
    positions = {node_id: number for number, node_id in enumerate(record.nodes)}
    known = [(key, each) for key, each in attempts.items() if key[0] in positions]
    requests, executions = [], []
    for (node_id, attempt), each in known:
        node = record.nodes[node_id]
        base = _attempt_row(record, node, attempt, each) | {"position": positions[node_id]}
        if isinstance(node.spec.call, LlmCall):
            requests.append(base | _request_columns(node.spec.call, each))
        else:
            executions.append(base | _execution_columns(node, node.spec.call, attempt, each))
    rows: dict[type[Base], list[Row]] = {
        Workflow: [_workflow_row(record, deployment, now)],
        Request: requests,
        Execution: executions,
        Candidate: _candidate_rows(record),
        Decision: [
            _decision_row(record, key, each["sent"]) for key, each in known if "sent" in each
        ],
        Tenant: [_tenant_row(record, deployment)],
    }
    cleaned = {table: [clean(row) for row in group] for table, group in rows.items()}
    return QuestionRows(record.submission.workflow_id, cleaned)


def running_rows(record: WorkflowRecord, deployment: str, now: float) -> QuestionRows:
    """The one row of a question that has begun."""
    row = {**_asked(record, deployment), **_UNENDED, "started_at": record.started_at}
    row |= {"status": str(WorkflowStatus.RUNNING), "recorded_at": now}
    return QuestionRows(record.submission.workflow_id, {Workflow: [clean(row)]}, whole=False)


def forgotten_rows(
    workflow_id: str, status: str, at: float, ended_at: float | None, deployment: str
) -> QuestionRows:
    """The one row of a question of which Redis knows no more than its `status` `at` a time."""
    row = {
        **dict.fromkeys(_ASKED_TEXTS, ""),
        **_UNENDED,
        "id": workflow_id,
        "deployment": deployment,
        "status": status,
        "options": {},
        "slo_seconds": 0.0,
        "submitted_at": at,
        "deadline": at,
        "finished_at": ended_at,
        "recorded_at": at,
    }
    return QuestionRows(workflow_id, {Workflow: [clean(row)]}, whole=False)


_ASKED_TEXTS = ("definition", "question", "database", "evidence", "tenant", "slo_class")
_UNENDED: Row = {
    "started_at": None,
    "finished_at": None,
    "best_effort": False,
    "deadline_met": False,
    "sql": "",
    "stage": "",
    "cause": "",
    "detail": {},
    "complete": False,
    **dict.fromkeys(TOKENS, 0),
}


def _asked(record: WorkflowRecord, deployment: str) -> Row:
    asked = record.submission
    return {
        "id": asked.workflow_id,
        "deployment": deployment,
        "definition": asked.workflow,
        "question": asked.question,
        "database": asked.database,
        "evidence": asked.evidence,
        "tenant": asked.tenant,
        "slo_class": asked.slo_class,
        "slo_seconds": asked.slo_seconds,
        "submitted_at": asked.submitted_at,
        "deadline": asked.deadline,
        "options": dict(asked.options),
    }


def _workflow_row(record: WorkflowRecord, deployment: str, now: float) -> Row:
    body = terminal_result(record, {}).body
    tokens = body["tokens"]
    return {
        **_asked(record, deployment),
        "status": str(record.status),
        "started_at": record.started_at,
        "finished_at": body["finished_at"],
        "best_effort": record.best_effort,
        "deadline_met": bool(body["deadline_met"]),
        "sql": str(body.get("sql") or body.get("last_sql") or ""),
        "stage": str(body.get("stage") or ""),
        "cause": str(body.get("cause") or ""),
        **{name: count(tokens[name.removesuffix("_tokens")]) for name in TOKENS},
        "detail": {name: body[name] for name in body if name not in _BODY_LEFT_OUT},
        "complete": True,
        "recorded_at": now,
    }


def _attempts(events: Iterable[Json]) -> dict[tuple[str, int], dict[str, Json]]:
    """Of each attempt its events by kind (every ending is `end`), the last of a kind."""
    attempts: dict[tuple[str, int], dict[str, Json]] = {}
    for event in events:
        if "node" in event:
            kind = "end" if event["event"] in ENDINGS else str(event["event"])
            attempts.setdefault((str(event["node"]), int(event["attempt"])), {})[kind] = event
    return attempts


def _attempt_row(record: WorkflowRecord, node: StoredNode, attempt: int, each: Events) -> Row:
    end = each.get("end", {})
    about = _COUNTED | _PLACES | {"t", "event", "node", "attempt", "workflow"}
    return {
        **_of_attempt(record, node.spec.id, attempt),
        "stage": node.spec.stage,
        "step": node.spec.step,
        "after": list(node.spec.after),
        "ending": str(end.get("event", "")),
        **{name: _last(each, name) for name in ("queue", "instance", "worker")},
        "ready_at": moment(each.get("ready", {}).get("t")),
        "claimed_at": moment(each.get("claimed", {}).get("t")),
        "ended_at": moment(end.get("t")),
        "facts": {name: value for name, value in end.items() if name not in about},
    }


def _of_attempt(record: WorkflowRecord, node_id: str, attempt: int) -> Row:
    asked = record.submission
    return {
        "workflow_id": asked.workflow_id,
        "submitted_at": asked.submitted_at,
        "node": node_id,
        "attempt": attempt,
    }


def _last(each: Events, name: str) -> str:
    """What the latest of an attempt's stages says of `name`; a router's wish counts least."""
    found = (each.get(kind, {}).get(name) for kind in ("end", "claimed"))
    text = next((str(value) for value in found if value), "")
    return text or (str(each.get("sent", {}).get("queue") or "") if name == "queue" else "")


def _request_columns(call: LlmCall, each: Events) -> Row:
    end = each.get("end", {})
    input_tokens = count(end.get("input_tokens"), call.input_tokens)
    template, schema = shared_tokens(call, max(1, input_tokens))
    return {
        "first_token_at": moment(each.get("first_token", {}).get("t")),
        "input_tokens": input_tokens,
        "output_tokens": count(end.get("output_tokens")),
        "cached_tokens": count(end.get("cached_tokens")),
        "template_tokens": count(template),
        "schema_tokens": count(schema),
    }


def _execution_columns(node: StoredNode, call: SqlCall, attempt: int, each: Events) -> Row:
    end = each.get("end", {})
    result = (node.outcome.get("result") or {}) if node.attempt == attempt else {}
    row_count = end.get("row_count")
    return {
        "operation": call.op,
        "sql": call.sql,
        "status": str(end.get("status") or ""),
        "error": str(result.get("error") or end.get("message") or ""),
        "row_count": None if row_count is None else count(row_count),
    }


def _candidate_rows(record: WorkflowRecord) -> list[Row]:
    """The candidates that the answer told of, where the workflow has candidates."""
    outcome = record.outcome
    told = outcome.detail.get("candidates") if outcome else None
    winner = outcome.rows_from if isinstance(outcome, Answer) else None
    listed = [each for each in told if isinstance(each, Mapping)] if isinstance(told, list) else []
    return [_candidate_row(record, number, each, winner) for number, each in enumerate(listed, 1)]


def _candidate_row(
    record: WorkflowRecord, number: int, told: Mapping[str, Any], winner: str | None
) -> Row:
    asked = record.submission
    return {
        "workflow_id": asked.workflow_id,
        "submitted_at": asked.submitted_at,
        "number": number,
        "chosen": winner is not None and told.get("execution") == winner,
        "sql": str(told.get("sql") or ""),
        "status": str(told.get("status") or ""),
        "error": str(told.get("error") or ""),
        **{name: count(told.get(name)) for name in ("row_count", "rounds", "votes")},
        "healed": bool(told.get("healed")),
        "detail": dict(told),
    }


def _decision_row(record: WorkflowRecord, key: tuple[str, int], sent: Json) -> Row:
    return {
        **_of_attempt(record, *key),
        "sent_at": float(sent["t"]),
        **{name: str(sent.get(name) or "") for name in ("queue", "instance", "policy")},
        "reasons": {name: value for name, value in sent.items() if name not in SENT_ABOUT},
    }


def _tenant_row(record: WorkflowRecord, deployment: str) -> Row:
    asked = record.submission
    return {
        "deployment": deployment,
        **tenant_key(asked.tenant, asked.slo_class),
        "first_seen_at": asked.submitted_at,
        "last_seen_at": asked.submitted_at,
        "pruned_questions": 0,
        "pruned_answered": 0,
        "pruned_met": 0,
    }


def tenant_key(tenant: str, slo_class: str) -> Row:
    """How a tenant and class are known in `tenants`: clients may send any text."""
    short = (clean_text(each)[:_TENANT_CHARACTERS] for each in (tenant, slo_class))
    return dict(zip(("name", "slo_class"), short, strict=True))
