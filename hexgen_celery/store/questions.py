"""Stored questions in the forms that the rest of the system reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hexgen_celery.answers import Answer, NoAnswer, Outcome
from hexgen_celery.observation import NodeStatusView, QuestionStatus
from hexgen_celery.store.reading import Row, StoredQuestion
from hexgen_celery.store.values import TOKENS
from hexgen_celery.tracing.export import QUESTION_KEY
from hexgen_celery.workflows.definition import Json, NodeKind
from hexgen_celery.workloads.model import RecordedTimes, WorkloadQuestion, WorkloadRequest

_ASKED = (
    *("status", "question", "database", "tenant", "slo_class", "slo_seconds", "submitted_at"),
    *("finished_at", "deadline", "best_effort", "deadline_met"),
)
_PLACES = ("queue", "instance", "worker")
_LINE = "line"


def stored_status(question: StoredQuestion, source: str) -> QuestionStatus:
    """Where the question stood when it was recorded; `source` is where that is known from."""
    row = question.workflow
    nodes = sorted(_last_attempts((*question.requests, *question.executions)), key=_position)
    return QuestionStatus(
        id=row["id"],
        status=row["status"],
        question=row["question"],
        database=row["database"],
        tenant=row["tenant"],
        slo_seconds=row["slo_seconds"],
        submitted_at=row["submitted_at"],
        deadline=row["deadline"],
        finished_at=row["finished_at"],
        nodes=tuple(map(_node_status, nodes)),
        source=source,
    )


def stored_outcome(question: StoredQuestion) -> Outcome | None:
    """How the question ended, but for the answer's rows, which are not stored.

    None where it had not ended, or Redis had forgotten too much before it was recorded.
    """
    row = question.workflow
    if row["finished_at"] is None or not row["complete"]:
        return None
    body: Json = {
        **row["detail"],
        **{name: row[name] for name in _ASKED},
        "workflow_id": row["id"],
        "workflow": row["definition"],
        "latency_seconds": round(row["finished_at"] - row["submitted_at"], 4),
        "candidates": [each["detail"] for each in question.candidates],
        "stages": _stages(question),
        "tokens": {name.removesuffix("_tokens"): row[name] for name in TOKENS},
    }
    if row["status"] == "answered":
        rows: Json = {"columns": [], "rows": [], "sql": row["sql"], "truncated": False}
        return Answer.from_json({**rows, **body})
    ending = {"stage": row["stage"], "cause": row["cause"], "last_sql": row["sql"]}
    return NoAnswer(row["id"], row["status"], {**body, **ending})


def stored_workload_question(question: StoredQuestion, *, origin: float) -> WorkloadQuestion:
    """The question as a line of the canonical workload; times in seconds since `origin`."""
    row = question.workflow
    numbers = _numbers(question.requests)
    after = {each["node"]: each["after"] for each in (*question.requests, *question.executions)}
    done = {each["node"]: each for each in question.requests if each["ending"] == "done"}
    line = row["options"].get(_LINE)
    replayed = str(line.get("database", "")) if isinstance(line, Mapping) else ""
    return WorkloadQuestion(
        question=str(row["options"].get(QUESTION_KEY) or row["question"] or row["id"]),
        database=replayed or row["database"],
        requests=tuple(
            _request(done[node], number, after, numbers, origin) for node, number in numbers.items()
        ),
        arrival=row["submitted_at"] - origin,
        tenant=row["tenant"],
        slo_seconds=row["slo_seconds"],
    )


def exportable(question: StoredQuestion) -> bool:
    """Whether it was answered, with at least one LLM request that is still stored."""
    return question.workflow["status"] == "answered" and bool(_numbers(question.requests))


def _numbers(requests: Iterable[Row]) -> dict[str, int]:
    """The LLM requests that were done, numbered prerequisites first."""
    done = [each for each in requests if each["ending"] == "done"]
    done.sort(key=lambda each: (each["ready_at"] or 0.0, each["position"]))
    return {each["node"]: number for number, each in enumerate(done)}


def _request(
    row: Row,
    number: int,
    after: Mapping[str, list[str]],
    numbers: Mapping[str, int],
    origin: float,
) -> WorkloadRequest:
    earlier = sorted(numbers[name] for name in _prerequisites(row["node"], after, numbers))
    moments = (row[name] for name in ("claimed_at", "first_token_at", "ended_at"))
    return WorkloadRequest(
        id=number,
        stage=row["stage"],
        step=row["step"],
        after=tuple(name for name in earlier if name < number),
        input_tokens=max(1, row["input_tokens"]),
        output_tokens=max(1, row["output_tokens"]),
        template_tokens=row["template_tokens"],
        schema_tokens=row["schema_tokens"],
        times=RecordedTimes(*(None if at is None else round(at - origin, 4) for at in moments)),
    )


def _prerequisites(
    node: str, after: Mapping[str, list[str]], numbers: Mapping[str, int]
) -> set[str]:
    """The requests that `node` waited for, directly or through executions."""
    found: set[str] = set()
    open_names = list(after[node])
    while open_names:
        name = open_names.pop()
        if name in numbers:
            found.add(name)
        else:
            open_names.extend(after.get(name, ()))
    return found


def _stages(question: StoredQuestion) -> list[Json]:
    """The nodes that ran, as a result lists them."""
    kinds = [(NodeKind.LLM, question.requests), (NodeKind.SQL, question.executions)]
    ran = [
        (row["position"], _stage(row, kind))
        for kind, rows in kinds
        for row in _last_attempts(rows)
        if row["ending"] in ("done", "failed")
    ]
    return [stage for _, stage in sorted(ran, key=lambda pair: pair[0])]


def _stage(row: Row, kind: NodeKind) -> Json:
    stage: Json = {
        "node": row["node"],
        "stage": row["stage"],
        "step": row["step"],
        "kind": str(kind),
        "status": row["ending"],
        "attempt": row["attempt"],
        "queued_seconds": _between(row["ready_at"], row["claimed_at"]),
        "seconds": _between(row["claimed_at"], row["ended_at"]),
        **{name: row[name] for name in _PLACES if row[name]},
    }
    if kind is NodeKind.SQL:
        return stage | ({"execution": row["status"]} if row["status"] else {})
    return stage | {name: row[name] for name in TOKENS}


def _last_attempts(rows: Iterable[Row]) -> list[Row]:
    """Of each node the attempt that won, else the last."""
    chosen: dict[str, Row] = {}
    for row in rows:
        known = chosen.get(row["node"])
        if known is None or known["ending"] != "done":
            chosen[row["node"]] = row
    return list(chosen.values())


def _node_status(row: Row) -> NodeStatusView:
    return NodeStatusView(
        id=row["node"],
        stage=row["stage"],
        step=row["step"],
        status=row["ending"] or "running",
        attempt=row["attempt"],
        queue=row["queue"],
        instance=row["instance"] or row["worker"],
    )


def _position(row: Row) -> int:
    return int(row["position"])


def _between(start: Any, end: Any) -> float | None:
    return None if start is None or end is None else round(float(end) - float(start), 4)
