"""The conversation with one server on the event loop: attempts, retries, streams, look-ups."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import aiohttp
import structlog
from tenacity import AsyncRetrying

from hexgen_celery.errors import ModelUnavailable
from hexgen_celery.llm.activity import Activity
from hexgen_celery.llm.endpoint import Endpoint, authorization
from hexgen_celery.llm.exchange import CONNECTION_ERRORS, Exchange, FirstToken
from hexgen_celery.llm.failures import (
    ExtrasRefused,
    TransientFailure,
    UnknownModel,
    connection_failure,
    read_error,
)
from hexgen_celery.llm.lacks import Lacks
from hexgen_celery.llm.payload import Body, chat_body
from hexgen_celery.llm.retrying import retrying
from hexgen_celery.llm.types import ChatRequest, Completion
from hexgen_celery.settings import LlmSettings

NOT_FOUND = 404
# So long a server may take to tell something of itself: a healthy one does that beside its work.
TELLING_SECONDS = 5.0

log = structlog.get_logger(__name__)


class ChatSession:
    """Talks to one server. Everything here runs on one event loop."""

    def __init__(self, endpoint: Endpoint, settings: LlmSettings) -> None:
        self.endpoint = endpoint
        self.activity = Activity()
        self._settings = settings
        self._unknown_fields: frozenset[str] = frozenset()
        self._lacks = Lacks(endpoint.root)
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            headers=authorization(settings),
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=settings.connect_timeout_seconds,
                sock_read=settings.idle_timeout_seconds,
            ),
            trust_env=not endpoint.is_loopback,
        )
        self._telling = aiohttp.ClientTimeout(
            total=min(TELLING_SECONDS, settings.idle_timeout_seconds),
            sock_connect=settings.connect_timeout_seconds,
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._http.close()

    async def complete(self, request: ChatRequest, first_token: FirstToken) -> Completion:
        """One completion, retried while nothing of it has been seen.

        Raises:
            ModelUnavailable: the server cannot be reached, keeps failing, or lacks the model.
            ModelRefused: the server rejects the request.
        """
        attempts = retrying(self._settings)
        try:
            return await attempts(self._attempt, request, first_token, attempts)
        except TransientFailure as error:
            raise _exhausted(error, attempts) from error
        except UnknownModel as error:
            raise await self._naming_served_models(request.model) from error

    async def _attempt(
        self, request: ChatRequest, first_token: FirstToken, attempts: AsyncRetrying
    ) -> Completion:
        """One attempt; a field that this server does not know costs another exchange, once."""
        number = _attempt_number(attempts)
        while True:
            try:
                body = chat_body(request, self._unknown_fields)
                return self._noted(await self._exchange(body, number).run(first_token))
            except ExtrasRefused as error:
                if self._unknown_fields.issuperset(error.fields):
                    raise
                self._leave_out(error)
                number += 1

    def _noted(self, completion: Completion) -> Completion:
        if not completion.usage_reported:
            self._lacks.note("usage", "tokens are counted by characters")
        elif not completion.cache_reported:
            self._lacks.note("cached_tokens", "what its prefix cache held stays unknown")
        return completion

    def _leave_out(self, error: ExtrasRefused) -> None:
        log.warning(
            "llm.fields_refused",
            server=self.endpoint.root,
            left_out=error.fields,
            error=error.message,
        )
        self._unknown_fields |= set(error.fields)

    def _exchange(self, body: Body, number: int) -> Exchange:
        return Exchange(self._http, self.endpoint, body, number, self.activity)

    async def models(self) -> list[str]:
        """The ids of the models served. Raises ModelUnavailable."""
        return list(await self.served())

    async def served(self) -> dict[str, int | None]:
        """The ids of the models served, with their context length where it is told (tokens).

        Raises:
            ModelUnavailable: the server cannot be reached, refuses the key, or lists no models.
        """
        listed = await self._get_json(self.endpoint.api("models"))
        entries = listed.get("data") if isinstance(listed, dict) else None
        if not isinstance(entries, list):
            raise ModelUnavailable(
                f"{self.endpoint.root} does not list its models",
                field="url",
                hint="name the base URL of an OpenAI-compatible server",
            )
        return {
            str(entry["id"]): _length(entry.get("max_model_len"))
            for entry in entries
            if isinstance(entry, dict) and "id" in entry
        }

    async def version(self) -> str | None:
        """What `/version` says (an emulated instance says so there); None where there is none."""
        try:
            answer = await self._get_json(self.endpoint.plain("version"))
        except ModelUnavailable:
            return None
        version = answer.get("version") if isinstance(answer, dict) else None
        return str(version) if version else None

    async def metrics(self) -> str:
        """The text of `/metrics`. Raises ModelUnavailable where there is none."""
        try:
            url = self.endpoint.plain("metrics")
            async with self._http.get(url, timeout=self._telling) as response:
                if not response.ok:
                    self._lacks.note("/metrics", "admission goes by our own ledger alone")
                    raise (await read_error(self.endpoint.root, response)).to_exception()
                return await response.text()
        except CONNECTION_ERRORS as error:
            raise connection_failure(self.endpoint.root, error) from error

    async def tokenize(self, text: str, model: str | None) -> int | None:
        """Tokens of `text` by the server's own tokenizer; None where it offers none."""
        body: dict[str, Any] = {"prompt": text, "add_special_tokens": False}
        body |= {"model": model} if model else {}
        try:
            url = self.endpoint.plain("tokenize")
            async with self._http.post(url, json=body, timeout=self._telling) as response:
                answer = await response.json(content_type=None) if response.ok else {}
                if response.status == NOT_FOUND:
                    self._lacks.note("/tokenize", "prompts are counted by characters")
        except (*CONNECTION_ERRORS, ValueError):
            return None
        count = answer.get("count") if isinstance(answer, dict) else None
        return count if isinstance(count, int) else None

    async def check(self, model: str) -> None:
        """Make sure the server answers and serves `model`.

        Raises:
            ModelUnavailable: it does not; the message lists what it serves.
        """
        served = await self.served()
        if self.may_serve(model, served):
            return
        raise await self._naming_served_models(model)

    def may_serve(self, model: str, served: Collection[str]) -> bool:
        """Whether `model` is among those listed; a server that lists none may serve any."""
        if not served:
            self._lacks.note("a list of its models", "only a request tells whether it serves one")
        return not served or model in served

    async def _naming_served_models(self, model: str) -> UnknownModel:
        served = ", ".join(await self.models()) or "none"
        return UnknownModel(
            f"{self.endpoint.root} does not serve the model {model!r}",
            field="model",
            hint=f"served there: {served}",
        )

    async def _get_json(self, url: str) -> Any:
        try:
            async with self._http.get(url, timeout=self._telling) as response:
                if not response.ok:
                    raise (await read_error(self.endpoint.root, response)).to_exception()
                return await response.json(content_type=None)
        except TimeoutError as error:
            raise ModelUnavailable(
                f"{url} gave no answer within {self._telling.total:g} s",
                field="url",
                hint="the server hangs or is overloaded; look at its log",
            ) from error
        except CONNECTION_ERRORS as error:
            raise connection_failure(self.endpoint.root, error) from error
        except ValueError as error:
            raise ModelUnavailable(
                f"{url} did not answer with JSON", field="url", hint="is this an LLM server?"
            ) from error


def _length(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _attempt_number(attempts: AsyncRetrying) -> int:
    return int(attempts.statistics.get("attempt_number", 1))


def _exhausted(error: TransientFailure, attempts: AsyncRetrying) -> ModelUnavailable:
    tried = _attempt_number(attempts)
    message = error.message if tried == 1 else f"{error.message} (tried {tried} times)"
    return ModelUnavailable(message, hint=error.hint, field=error.field)
