"""From what went wrong on the wire to an error that says how to mend it."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any

import aiohttp

from hexgen_celery.errors import HexgenError, ModelRefused, ModelUnavailable
from hexgen_celery.llm.payload import OPTIONAL_FIELDS

TOO_MANY_REQUESTS = 429
SERVER_ERRORS = 500
MAX_QUOTED_CHARS = 500

_OVERFLOW = re.compile(
    r"maximum context length|context_length_exceeded|max_model_len|maximum model length"
    r"|longer than the maximum",
    re.IGNORECASE,
)
_UNKNOWN_FIELD = re.compile(
    r"extra (inputs|fields)|extra_forbidden|unrecogni[sz]ed|unknown (field|param|argument|name)"
    r"|unexpected (keyword|field|param)|(not|only) (permitted|supported|allowed)|unsupported"
    r"|not enabled",
    re.IGNORECASE,
)


class TransientFailure(ModelUnavailable):
    """Raised when the same request may succeed a moment later: overload, 5xx, connection loss."""

    def __init__(
        self, message: str, *, hint: str = "", field: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint, field=field)
        self.retry_after = retry_after


class UnknownModel(ModelUnavailable):
    """Raised when the server runs but does not serve the model that was asked for."""


class ContextOverflow(ModelRefused):
    """Raised when prompt and answer together do not fit into the model's context."""

    code = "context_overflow"


class ContextTooShort(ModelUnavailable):
    """Raised in place of `ContextOverflow` where an instance with more than the `context_tokens` of
    this one can take the request."""

    code = "context_too_short"

    def __init__(
        self, message: str, context_tokens: int, *, hint: str = "", field: str = ""
    ) -> None:
        super().__init__(message, hint=hint, field=field)
        self.context_tokens = context_tokens

    def to_json(self) -> dict[str, str]:
        """With the context that was too short."""
        return {**super().to_json(), "context_tokens": str(self.context_tokens)}


class ExtrasRefused(ModelRefused):
    """Raised when a server rejects `fields` that not all know; without them it may pass."""

    def __init__(self, message: str, *, hint: str, field: str, fields: tuple[str, ...]) -> None:
        super().__init__(message, hint=hint, field=field)
        self.fields = fields


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error answer of `server`: HTTP status, the server's own words, the field it names."""

    server: str
    status: int
    message: str
    param: str = ""
    kind: str = ""
    retry_after: float | None = None

    def to_exception(self) -> HexgenError:
        """The error to raise for this reply."""
        if self.status == TOO_MANY_REQUESTS or self.status >= SERVER_ERRORS:
            return self._transient()
        if self.status in (401, 403):
            return self._unauthorized()
        if self.status == 404:
            return self._not_found()
        if _OVERFLOW.search(f"{self.message} {self.kind}"):
            return ContextOverflow(
                f"the request does not fit the model: {self.message}",
                field=self.param or "max_tokens",
                hint="shorten the prompt or max_tokens, or serve the model with a longer context",
            )
        return self._refused()

    def _transient(self) -> TransientFailure:
        return TransientFailure(
            f"{self.server} answered {self.status}: {self.message}",
            hint="the server is overloaded or failing; look at its log",
            retry_after=self.retry_after,
        )

    def _unauthorized(self) -> ModelUnavailable:
        """No fault of the request's: another server may take its key. Were it refused instead, a
        server whose key changed would fail every question that its idleness attracts."""
        return ModelUnavailable(
            f"{self.server} refused the API key ({self.status}): {self.message}",
            field="llm.api_key",
            hint="set HEXGEN_LLM__API_KEY or llm.api_key_file to a key this server accepts",
        )

    def _not_found(self) -> HexgenError:
        if "model" in self.message.lower() or self.param == "model":
            return UnknownModel(f"{self.server}: {self.message}", field="model")
        return ModelUnavailable(
            f"{self.server} has no chat completions (404: {self.message})",
            field="url",
            hint="name the base URL of an OpenAI-compatible server",
        )

    def _refused(self) -> ModelRefused:
        named = f" (field {self.param})" if self.param else ""
        message = f"{self.server} rejected the request ({self.status}){named}: {self.message}"
        hint = "the same request would be rejected again; change what the server names"
        blamed = self._blamed_extras()
        if blamed:
            return ExtrasRefused(message, hint=hint, field=self.param, fields=blamed)
        return ModelRefused(message, hint=hint, field=self.param)

    def _blamed_extras(self) -> tuple[str, ...]:
        words = f"{self.message} {self.param} {self.kind}"
        if not _UNKNOWN_FIELD.search(words):
            return ()
        return tuple(name for name in OPTIONAL_FIELDS if name in words)


async def read_error(server: str, response: aiohttp.ClientResponse) -> ErrorReply:
    """Read an error answer, whatever shape it has."""
    text = (await response.content.read(MAX_QUOTED_CHARS * 16)).decode("utf-8", "replace")
    reply = parse_error(server, response.status, text)
    retry_after = _seconds(response.headers.get("Retry-After"))
    return ErrorReply(server, reply.status, reply.message, reply.param, reply.kind, retry_after)


def parse_error(server: str, status: int, text: str) -> ErrorReply:
    """Understand OpenAI's and vLLM's error objects, FastAPI's `detail`, and plain text."""
    try:
        body = json.loads(text)
    except ValueError:
        return ErrorReply(server, status, _quoted(text) or "no reason given")
    return reply_from_object(server, status, body)


def reply_from_object(server: str, status: int, body: Any) -> ErrorReply:
    """The reply in a decoded error body (also one that came in mid-stream)."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return ErrorReply(server, status, _quoted(str(error)))
    message = error.get("message") or error.get("detail") or json.dumps(error)
    code = error.get("code")
    kind = " ".join(str(word) for word in (error.get("type"), code) if word)
    return ErrorReply(server, status, _quoted(str(message)), str(error.get("param") or ""), kind)


def _quoted(text: str) -> str:
    return " ".join(text.split())[:MAX_QUOTED_CHARS]


def _seconds(header: str | None) -> float | None:
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None


def connection_failure(server: str, error: BaseException) -> ModelUnavailable:
    """What to raise for a connection that failed before the first token."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return ModelUnavailable(
            f"{server} has no certificate this machine trusts: {error}",
            field="url",
            hint="install its certificate authority, or use the server's http:// address",
        )
    if isinstance(error, aiohttp.ClientConnectorError):
        return TransientFailure(
            f"cannot reach the LLM server {server}: {error.os_error.strerror or error.os_error}",
            field="url",
            hint="start the server there, or correct the instance's url",
        )
    return lost_connection(server, error, TransientFailure)


def lost_connection(
    server: str, error: BaseException, raises: type[ModelUnavailable] = ModelUnavailable
) -> ModelUnavailable:
    """What to raise for a connection that broke or fell silent."""
    if isinstance(error, asyncio.TimeoutError):
        return raises(
            f"{server} fell silent: {error or 'time-out'}",
            hint="raise llm.idle_timeout_seconds if the server is merely slow",
        )
    return raises(
        f"{server} closed the connection: {error or type(error).__name__}",
        hint="the server may have stopped; look at its log",
    )
