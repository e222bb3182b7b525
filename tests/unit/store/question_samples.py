"""Small stored questions, for tests that care about rows and not about what made them."""

from __future__ import annotations

from typing import Any

from hexgen_celery.store.models import (
    Base,
    Candidate,
    Decision,
    Execution,
    Request,
    Tenant,
    Workflow,
)
from hexgen_celery.store.records import QuestionRows, Row

DEPLOYMENT = "d"
_TOKENS = {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 0}


def question(name: str, at: float, requests: int = 1, **changes: Any) -> QuestionRows:
    """An answered question submitted `at`; `changes` are columns of its row in `workflows`."""
    workflow = {**_workflow(name, at), **changes}
    tenant = {
        "deployment": DEPLOYMENT,
        "name": workflow["tenant"],
        "slo_class": "",
        "first_seen_at": at,
        "last_seen_at": at,
        "pruned_questions": 0,
        "pruned_answered": 0,
        "pruned_met": 0,
    }
    rows: dict[type[Base], list[Row]] = {
        Workflow: [workflow],
        Request: [_request(name, at, number) for number in range(requests)],
        Execution: [_execution(name, at)],
        Candidate: [_candidate(name, at)],
        Decision: [_decision(name, at, number) for number in range(requests)],
        Tenant: [tenant],
    }
    return QuestionRows(name, rows)


def _workflow(name: str, at: float) -> Row:
    return {
        "id": name,
        "deployment": DEPLOYMENT,
        "definition": "text_to_sql",
        "status": "answered",
        "question": f"how many {name}?",
        "database": "shop",
        "evidence": "",
        "tenant": "default",
        "slo_class": "",
        "slo_seconds": 30.0,
        "submitted_at": at,
        "deadline": at + 30,
        "started_at": at + 0.1,
        "finished_at": at + 5,
        "best_effort": False,
        "deadline_met": True,
        "sql": "SELECT 1",
        "stage": "",
        "cause": "",
        **_TOKENS,
        "options": {},
        "detail": {"why": "it was alone"},
        "complete": True,
        "recorded_at": at + 6,
    }


def _attempt(name: str, at: float, node: str, position: int) -> Row:
    return {
        "workflow_id": name,
        "submitted_at": at,
        "node": node,
        "attempt": 1,
        "position": position,
        "stage": "candidate_generation",
        "step": "candidate",
        "after": [],
        "ending": "done",
        "queue": "gpu.a.p",
        "instance": "i1",
        "worker": "w",
        "ready_at": at + 0.1,
        "claimed_at": at + 1,
        "ended_at": at + 4,
        "facts": {},
    }


def _request(name: str, at: float, number: int) -> Row:
    shared = {"template_tokens": 40, "schema_tokens": 50, "first_token_at": at + 2}
    return {**_attempt(name, at, f"candidate.{number + 1}", number), **_TOKENS, **shared}


def _execution(name: str, at: float) -> Row:
    ran = {"operation": "execute", "sql": "SELECT 1", "status": "ok", "error": "", "row_count": 1}
    return {**_attempt(name, at, "execution.1", 100), **ran}


def _candidate(name: str, at: float) -> Row:
    return {
        "workflow_id": name,
        "submitted_at": at,
        "number": 1,
        "chosen": True,
        "sql": "SELECT 1",
        "status": "ok",
        "error": "",
        "row_count": 1,
        "rounds": 0,
        "healed": False,
        "votes": 1,
        "detail": {},
    }


def _decision(name: str, at: float, number: int) -> Row:
    return {
        "workflow_id": name,
        "submitted_at": at,
        "node": f"candidate.{number + 1}",
        "attempt": 1,
        "sent_at": at + 0.2,
        "queue": "gpu.a.p",
        "instance": "i1",
        "policy": "alpha",
        "reasons": {"score": 0.5, "considered": "i1 0.5, i2 0.4"},
    }
