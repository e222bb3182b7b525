"""The canonical form: one question per line as JSON. Our own traces add times to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from hexgen_celery.errors import InvalidWorkload
from hexgen_celery.workloads.model import RecordedTimes, WorkloadQuestion, WorkloadRequest

TIMES = ("start", "first_token", "end")


def parse_question(row: object, where: str) -> WorkloadQuestion:
    """Build a question from a parsed line; `where` names file and line in errors.

    Raises:
        InvalidWorkload: naming the field at fault.
    """
    if not isinstance(row, Mapping) or not isinstance(row.get("requests"), list):
        raise _invalid(where, "requests", "is missing", "each line is an object with requests")
    if not row["requests"]:
        raise _invalid(where, "requests", "is empty", "give at least one request")
    requests: list[WorkloadRequest] = []
    for position, request in enumerate(row["requests"]):
        place = f"{where}, requests[{position}]"
        requests.append(_request(request, position, {r.id for r in requests}, place))
    return WorkloadQuestion(
        question=str(row.get("question", where)),
        database=str(row.get("database", "")),
        requests=tuple(requests),
        split=str(row.get("split", "test")),
        arrival=_seconds(row, "arrival", where),
        tenant=str(row.get("tenant", "")),
        slo_seconds=_seconds(row, "slo_seconds", where),
    )


def dump_question(question: WorkloadQuestion) -> dict[str, Any]:
    """The canonical object of a question; `parse_question` reads it back."""
    row: dict[str, Any] = {"question": question.question, "database": question.database}
    for name in ("arrival", "slo_seconds"):
        if getattr(question, name) is not None:
            row[name] = getattr(question, name)
    if question.tenant:
        row["tenant"] = question.tenant
    row["requests"] = [_dump_request(request) for request in question.requests]
    row["split"] = question.split
    return row


def _dump_request(request: WorkloadRequest) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": request.id,
        "stage": request.stage,
        "step": request.step,
        "after": list(request.after),
        "input_tokens": request.input_tokens,
        "output_tokens": request.output_tokens,
        "template_tokens": request.template_tokens,
        "schema_tokens": request.schema_tokens,
    }
    for name in TIMES:
        if (moment := getattr(request.times, name)) is not None:
            row[name] = moment
    return row


def _request(row: object, position: int, earlier: set[int], where: str) -> WorkloadRequest:
    if not isinstance(row, Mapping):
        raise _invalid(where, "requests", "must hold objects", "see the canonical format")
    number = _tokens(row, "id", where, least=0, default=position)
    after = row.get("after", [])
    if number in earlier:
        raise _invalid(where, "id", f"{number} occurs twice", "number requests uniquely")
    if not isinstance(after, list) or not all(
        _is_whole(name) and name in earlier for name in after
    ):
        hint = "list prerequisites before the requests that need them"
        raise _invalid(where, "after", f"names unknown requests: {after!r}", hint)
    step = str(row.get("step", ""))
    request = WorkloadRequest(
        id=number,
        stage=str(row.get("stage", step)),
        step=step,
        after=tuple(after),
        input_tokens=_tokens(row, "input_tokens", where, least=1),
        output_tokens=_tokens(row, "output_tokens", where, least=1),
        template_tokens=_tokens(row, "template_tokens", where, least=0, default=0),
        schema_tokens=_tokens(row, "schema_tokens", where, least=0, default=0),
        times=RecordedTimes(*(_seconds(row, name, where) for name in TIMES)),
    )
    if request.template_tokens + request.schema_tokens > request.input_tokens:
        hint = "template_tokens and schema_tokens are parts of input_tokens"
        raise _invalid(where, "input_tokens", "is less than its parts", hint)
    return request


def _tokens(
    row: Mapping[str, Any], name: str, where: str, *, least: int, default: int | None = None
) -> int:
    value = row.get(name, default)
    if not _is_whole(value) or value < least:
        raise _invalid(
            where, name, f"must be a whole number from {least}, got {value!r}", "correct the file"
        )
    return value


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _seconds(row: Mapping[str, Any], name: str, where: str) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _invalid(where, name, f"must be seconds, got {value!r}", "correct the file")
    return float(value)


def _invalid(where: str, field: str, message: str, hint: str) -> InvalidWorkload:
    return InvalidWorkload(f"{where}: {field} {message}", field=field, hint=hint)
