"""Questions as they come in, checked before anything is stored.

Every refusal names the field and how to mend it.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rapidfuzz import fuzz, process

from hexgen_celery.errors import InvalidSubmission, UnknownDatabase
from hexgen_celery.settings import DEFAULT_TENANT, DeadlineSettings, Settings
from hexgen_celery.slo_classes import resolve_slo
from hexgen_celery.workflows.definition import Json, Submission
from hexgen_celery.workflows.pipeline_options import resolve_options
from hexgen_celery.workflows.routing_options import routing_options

TEXT_TO_SQL = "text_to_sql"
FIELDS = (
    "question",
    "database",
    "slo_seconds",
    "tenant",
    "evidence",
    "submitted_at",
    "workflow",
    "options",
    "slo_class",
)
MAX_ID_CHARS = 255
MAX_NAME_CHARS = 64
MAX_LISTED = 10
CLOCK_SKEW_SECONDS = 60.0
OLDEST_SECONDS = 30 * 86_400.0


class KnownDatabases(Protocol):
    """What is registered."""

    def names(self) -> Sequence[str]:
        """The names of all databases."""
        ...


def validate(
    payload: Mapping[str, Any],
    settings: Settings,
    databases: KnownDatabases,
    *,
    workflow_id: str | None = None,
    received_at: float | None = None,
) -> Submission:
    """The submission that `payload` (see `FIELDS`) describes.

    `workflow_id` is the id of the Celery task (a new one without it); `received_at` (Unix seconds,
    now without it) is when the clock starts unless the payload says `submitted_at`. Options of
    text_to_sql are checked here, those of other workflows by their definition.

    Raises:
        InvalidSubmission: a field is missing, unknown or impossible; tenant or class are unknown.
        UnknownDatabase: the database is not registered; those that are are listed, nearest first.
    """
    _check_names(payload)
    limits = settings.deadline
    now = time.time() if received_at is None else received_at
    workflow = _text(payload, "workflow", MAX_NAME_CHARS) or TEXT_TO_SQL
    tenant = _text(payload, "tenant", MAX_NAME_CHARS) or DEFAULT_TENANT
    slo = resolve_slo(
        settings,
        tenant,
        slo_class=_text(payload, "slo_class", MAX_NAME_CHARS),
        seconds=_slo(payload, limits),
    )
    submitted_at = _submitted_at(payload, now)
    return Submission(
        workflow_id=_workflow_id(workflow_id),
        workflow=workflow,
        question=_question(payload, limits, required=workflow == TEXT_TO_SQL),
        database=_database(payload, databases, required=workflow == TEXT_TO_SQL),
        slo_seconds=slo.seconds,
        submitted_at=submitted_at,
        deadline=submitted_at + slo.seconds,
        tenant=tenant,
        evidence=_text(payload, "evidence", limits.max_evidence_chars),
        options=_options(payload, workflow, settings),
        slo_class=slo.slo_class,
    )


def _check_names(payload: Mapping[str, Any]) -> None:
    for name in payload:
        if name not in FIELDS:
            near = process.extractOne(str(name), FIELDS, scorer=fuzz.WRatio, score_cutoff=70)
            guess = f"did you mean {near[0]!r}? " if near else ""
            raise InvalidSubmission(
                f"unknown field {name!r}",
                field=str(name),
                hint=f"{guess}fields: {', '.join(FIELDS)}; settings of the workflow go in options",
            )


def _workflow_id(workflow_id: object) -> str:
    if workflow_id is None:
        return str(uuid.uuid4())
    if not isinstance(workflow_id, str):
        raise _wrong_type("task_id", workflow_id, "text")
    printable = workflow_id.isprintable() and not any(map(str.isspace, workflow_id))
    if not workflow_id or len(workflow_id) > MAX_ID_CHARS or "/" in workflow_id or not printable:
        raise InvalidSubmission(
            f"the task id {workflow_id[:MAX_NAME_CHARS]!r} cannot be used",
            field="task_id",
            hint=f"use 1 to {MAX_ID_CHARS} printable characters without spaces and '/'",
        )
    return workflow_id


def _question(payload: Mapping[str, Any], limits: DeadlineSettings, *, required: bool) -> str:
    question = _text(payload, "question", limits.max_question_chars)
    if required and not question.strip():
        raise InvalidSubmission(
            "question is empty", field="question", hint="ask something about the database"
        )
    return question


def _database(payload: Mapping[str, Any], databases: KnownDatabases, *, required: bool) -> str:
    name = _text(payload, "database", MAX_ID_CHARS)
    if not required:
        return name
    known = list(databases.names())
    if name in known:
        return name
    wrong = f"unknown database {name!r}" if name else "database is empty"
    raise UnknownDatabase(wrong, field="database", hint=_known_databases(name, known))


def _known_databases(name: str, known: list[str]) -> str:
    if not known:
        return "none is registered; add one with `hexgen db add PATH`"
    nearest = process.extract(name, known, scorer=fuzz.WRatio, limit=MAX_LISTED)
    listed = ", ".join(match for match, _, _ in nearest)
    more = f" and {len(known) - MAX_LISTED} more" if len(known) > MAX_LISTED else ""
    return f"registered, nearest first: {listed}{more}"


def _slo(payload: Mapping[str, Any], limits: DeadlineSettings) -> float | None:
    seconds = _number(payload, "slo_seconds")
    if seconds is None:
        return None
    if not 0 < seconds <= limits.max_slo_seconds:
        raise InvalidSubmission(
            f"slo_seconds is {seconds:g}",
            field="slo_seconds",
            hint=f"give more than 0 and at most {limits.max_slo_seconds:g} seconds",
        )
    return seconds


def _submitted_at(payload: Mapping[str, Any], now: float) -> float:
    submitted_at = _number(payload, "submitted_at")
    if submitted_at is None:
        return now
    if not now - OLDEST_SECONDS <= submitted_at <= now + CLOCK_SKEW_SECONDS:
        when = "in the future" if submitted_at > now else "too long ago"
        raise InvalidSubmission(
            f"submitted_at {submitted_at:.3f} is {when}",
            field="submitted_at",
            hint=f"give Unix seconds (now {now:.0f}), or leave it out; check the client's clock",
        )
    return submitted_at


def _options(payload: Mapping[str, Any], workflow: str, settings: Settings) -> Json:
    options = payload.get("options")
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise _wrong_type("options", options, "an object of settings by name")
    routing_options(options)
    if workflow == TEXT_TO_SQL:
        resolve_options(options, settings.pipeline)
    return dict(options)


def _text(payload: Mapping[str, Any], name: str, most: int) -> str:
    value = payload.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong_type(name, value, "text")
    if len(value) > most:
        raise InvalidSubmission(
            f"{name} has {len(value)} characters", field=name, hint=f"at most {most} are accepted"
        )
    return value


def _number(payload: Mapping[str, Any], name: str) -> float | None:
    value = payload.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_type(name, value, "a number of seconds")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidSubmission(
            f"{name} is {number}", field=name, hint="give a finite number of seconds"
        )
    return number


def _wrong_type(name: str, value: Any, expected: str) -> InvalidSubmission:
    return InvalidSubmission(
        f"{name} must be {expected}, got {type(value).__name__}",
        field=name,
        hint=f"give {name} as {expected}",
    )
