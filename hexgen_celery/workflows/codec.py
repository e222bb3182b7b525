"""Workflow values as compact JSON, for Redis.

Defaults are left out, because most fields of most nodes have them and every waiting question keeps
its nodes in memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from hexgen_celery.workflows.definition import (
    Answer,
    Failure,
    Json,
    LlmCall,
    NodeKind,
    NodeSpec,
    Outcome,
    PartRef,
    SqlCall,
    Submission,
)

Plain = Submission | LlmCall | SqlCall | NodeSpec | PartRef | Answer | Failure


def dumps(value: Any) -> str:
    """Any JSON value in the fewest characters."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate, which a model's text may hold, has a JSON escape but no UTF-8 form.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def loads(text: str) -> Json:
    """A JSON object."""
    value: Json = json.loads(text)
    return value


def encode_submission(submission: Submission) -> str:
    """A submission as JSON."""
    return dumps(_fields_of(submission))


def decode_submission(text: str) -> Submission:
    """The submission that `encode_submission` wrote."""
    return Submission(**loads(text))


def encode_spec(spec: NodeSpec) -> str:
    """A node's specification as JSON."""
    values = {**_fields_of(spec), "call": _fields_of(spec.call)}
    if isinstance(spec.call, LlmCall):
        values["call"]["parts"] = [[part.hash, part.tokens, part.role] for part in spec.call.parts]
    return dumps(values)


def decode_spec(text: str) -> NodeSpec:
    """The specification that `encode_spec` wrote."""
    values = loads(text)
    kind = NodeKind(values.pop("kind"))
    call = values.pop("call")
    after = tuple(values.pop("after", ()))
    decoded = _llm_call(call) if kind is NodeKind.LLM else SqlCall(**call)
    return NodeSpec(kind=kind, call=decoded, after=after, **values)


def encode_outcome(outcome: Outcome, *, best_effort: bool = False) -> str:
    """An outcome as JSON, with whether the deadline forced it."""
    kind = "answer" if isinstance(outcome, Answer) else "failure"
    return dumps({"kind": kind, "best_effort": best_effort, **_fields_of(outcome)})


def decode_outcome(text: str) -> tuple[Outcome, bool]:
    """The outcome that `encode_outcome` wrote, and whether the deadline forced it."""
    values = loads(text)
    best_effort = bool(values.pop("best_effort"))
    kind = Answer if values.pop("kind") == "answer" else Failure
    return kind(**values), best_effort


def _llm_call(values: Json) -> LlmCall:
    parts = tuple(PartRef(*part) for part in values.pop("parts"))
    stop = tuple(values.pop("stop", ()))
    return LlmCall(parts=parts, stop=stop, **values)


def _fields_of(value: Plain) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    return {
        field.name: _plain(content)
        for field in fields(value)
        if (content := getattr(value, field.name)) != _default(field)
    }


def _plain(content: Any) -> Any:
    return dict(content) if isinstance(content, Mapping) else content


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default
