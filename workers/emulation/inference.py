"""A request as the emulated instance understands it, read from OpenAI's JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.emulation.api_error import ApiError
from workers.emulation.tokens import count_tokens

BAD_REQUEST = 400


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """One completion to make. `texts` are the prompt's pieces in order; lengths in tokens."""

    chat: bool
    model: str
    texts: tuple[str, ...]
    max_tokens: int | None
    min_tokens: int
    ignore_eos: bool
    stream: bool
    include_usage: bool
    priority: float
    stop: tuple[str, ...]
    metadata: Mapping[str, str]

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt as it was sent (at least one, like a real template's)."""
        return max(1, count_tokens(sum(map(len, self.texts))))

    @property
    def forced_tokens(self) -> int | None:
        """The exact length asked for, if one is."""
        exact = self.ignore_eos and self.min_tokens == self.max_tokens
        return self.max_tokens if exact else None


def parse_request(raw: bytes, *, chat: bool) -> InferenceRequest:
    """Read a body of `/v1/chat/completions` (`chat`) or `/v1/completions`.

    Raises:
        ApiError: 400 that names the field, as vLLM does.
    """
    body = json_object(raw)
    if _number(body, "n", 1) != 1:
        raise ApiError(BAD_REQUEST, "the emulated instance serves n = 1 only", "n")
    max_field = "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"
    return InferenceRequest(
        chat=chat,
        model=str(body.get("model") or ""),
        texts=_chat_texts(body) if chat else _completion_texts(body),
        max_tokens=_length(body, max_field),
        min_tokens=_length(body, "min_tokens") or 0,
        ignore_eos=bool(body.get("ignore_eos")),
        stream=bool(body.get("stream")),
        include_usage=_include_usage(body.get("stream_options")),
        priority=_number(body, "priority", 0.0),
        stop=_stop(body.get("stop")),
        metadata=_metadata(body.get("metadata")),
    )


def json_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in a request's body.

    Raises:
        ApiError: 400 where it is none.
    """
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise ApiError(BAD_REQUEST, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ApiError(BAD_REQUEST, "the body is not a JSON object")
    return body


def _chat_texts(body: dict[str, Any]) -> tuple[str, ...]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiError(BAD_REQUEST, "messages must be a list of at least one message", "messages")
    return tuple(_content(message) for message in messages)


def _content(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return "".join(str(part.get("text", "")) for part in content)
    raise ApiError(BAD_REQUEST, "each message needs a role and a text content", "messages")


def _completion_texts(body: dict[str, Any]) -> tuple[str, ...]:
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise ApiError(BAD_REQUEST, "prompt must be one text", "prompt")
    return (prompt,)


def _length(body: dict[str, Any], field: str) -> int | None:
    value = body.get(field)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ApiError(BAD_REQUEST, f"{field} must be a whole number of tokens", field)
    return value


def _number(body: dict[str, Any], field: str, default: float) -> float:
    value = body.get(field)
    if value is None:
        return default
    if not isinstance(value, int | float):
        raise ApiError(BAD_REQUEST, f"{field} must be a number", field)
    return value


def _stop(value: Any) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value or []
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise ApiError(BAD_REQUEST, "stop must be a text or a list of texts", "stop")
    return tuple(filter(None, listed))


def _include_usage(options: Any) -> bool:
    if options is None:
        return False
    if not isinstance(options, dict):
        raise ApiError(BAD_REQUEST, "stream_options must be an object", "stream_options")
    return bool(options.get("include_usage"))


def _metadata(value: Any) -> Mapping[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ApiError(BAD_REQUEST, "metadata must be an object of texts", "metadata")
    return value
