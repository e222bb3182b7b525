"""The JSON body of a chat completion, plain OpenAI fields first, vLLM's own only where asked."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hexgen_celery.llm.types import ChatRequest

Body = dict[str, Any]

MILLISECONDS = 1000
EXTRA_FIELDS = ("priority", "min_tokens", "ignore_eos", "metadata")
OPTIONAL_FIELDS = (*EXTRA_FIELDS, "response_format", "stream_options")
"""What a request still means the same without, more or less: left out where a server refuses it."""


def chat_body(request: ChatRequest, without: Collection[str] = ()) -> Body:
    """The body for `request`, leaving out those of its fields that `without` names."""
    body: Body = {
        "model": request.model,
        "messages": [{"role": role, "content": text} for role, text in request.messages],
        "max_tokens": request.forced_output_tokens or request.max_tokens,
        "temperature": request.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    body.update(_optional(request))
    body.update(extra_fields(request))
    return {name: value for name, value in body.items() if name not in without}


def _optional(request: ChatRequest) -> Body:
    fields: Body = {
        "seed": request.seed,
        "stop": list(request.stop) or None,
        "response_format": request.response_format,
    }
    return {name: value for name, value in fields.items() if value is not None}


def extra_fields(request: ChatRequest) -> Body:
    """The fields beyond OpenAI's API that `request` needs."""
    fields: Body = {}
    if request.priority is not None:
        fields["priority"] = round(request.priority * MILLISECONDS)
    if request.forced_output_tokens is not None:
        fields["min_tokens"] = request.forced_output_tokens
        fields["ignore_eos"] = True
    if request.metadata:
        fields["metadata"] = dict(request.metadata)
    return fields
