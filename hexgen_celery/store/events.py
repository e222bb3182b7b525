"""Stored rows as the events they were made of, for everything that reads traces. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hexgen_celery.store.values import TOKENS

if TYPE_CHECKING:
    from hexgen_celery.workflows.definition import Json

Stored = Mapping[str, Any]

_ORDER = ("started", "done", "failed", "retried", "dropped", "ready", "sent", "claimed")
_RAN = ("instance", "worker")
_PLACES = ("stage", "step", "queue", *_RAN)
_ASKED = ("definition", "database", "tenant", "slo_class", "slo_seconds", "submitted_at")
_COUNTED = ("status", "row_count")
_ATTEMPT = ("node", "attempt", *_PLACES, "ready_at", "claimed_at", "ended_at", "ending", "facts")

# What `stored_events` reads of each table.
WORKFLOW_COLUMNS = (*_ASKED, "deadline", "started_at", "finished_at", "status")
REQUEST_COLUMNS = (*_ATTEMPT, "first_token_at", *TOKENS)
EXECUTION_COLUMNS = (*_ATTEMPT, *_COUNTED)
DECISION_COLUMNS = ("node", "attempt", "sent_at", "queue", "instance", "policy", "reasons")


def stored_events(
    workflow: Stored,
    requests: Iterable[Stored],
    executions: Iterable[Stored],
    decisions: Iterable[Stored],
) -> list[Json]:
    """What happened to a question, oldest first."""
    decided = {(row["node"], row["attempt"]): row for row in decisions}
    events = [_started(workflow)]
    for kind, rows in (("request", requests), ("execution", executions)):
        for row in rows:
            decision = decided.get((row["node"], row["attempt"]))
            events += _attempt_events(row, decision, is_request=kind == "request")
    events.sort(key=lambda event: (event["t"], _rank(event)))
    if workflow["finished_at"] is not None:
        status = workflow["status"]
        events.append({"event": "finished", "t": workflow["finished_at"], "status": status})
    return events


def _rank(event: Json) -> int:
    """Of events at one time: an end comes before what it makes ready."""
    kind = event["event"]
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _started(row: Stored) -> Json:
    began = row["started_at"] if row["started_at"] is not None else row["submitted_at"]
    asked = {name: row[name] for name in (*_ASKED, "deadline")}
    return {"event": "started", "t": began, **asked}


def _attempt_events(row: Stored, decision: Stored | None, *, is_request: bool) -> list[Json]:
    about = {"node": row["node"], "attempt": row["attempt"]}
    ran = {name: row[name] for name in ("queue", "instance", "worker")}
    told = [
        ("ready", row["ready_at"], {"stage": row["stage"], "step": row["step"]}),
        ("claimed", row["claimed_at"], ran),
        ("first_token", row.get("first_token_at"), {"instance": row["instance"]}),
        (row["ending"], row["ended_at"], _end_facts(row, is_request=is_request)),
    ]
    if decision is not None:
        told.append(("sent", decision["sent_at"], _sent_facts(decision)))
    return [
        {"event": kind, "t": at, **about, **facts} for kind, at, facts in told if at is not None
    ]


def _end_facts(row: Stored, *, is_request: bool) -> Json:
    if row["ending"] == "dropped":
        return dict(row["facts"])
    places = {name: row[name] for name in _PLACES if row[name]}
    if row["ending"] == "retried":
        return {**row["facts"], **{name: places[name] for name in _RAN if name in places}}
    if is_request:
        return {**row["facts"], **places, **{name: row[name] for name in TOKENS}}
    counted = {name: row[name] for name in _COUNTED if row[name] not in ("", None)}
    return {**row["facts"], **places, **counted}


def _sent_facts(decision: Stored) -> Json:
    known = {name: decision[name] for name in ("queue", "instance", "policy") if decision[name]}
    return {**decision["reasons"], **known}
