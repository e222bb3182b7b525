"""Asking an LLM server whether it can be used, and whether it is what its pool says."""

from __future__ import annotations

from hexgen_celery.errors import HexgenError
from hexgen_celery.llm import CancelToken, ChatRequest, LlmClient

PROBE_TEXT = "Answer with the word ready."


class InstanceRefused(HexgenError):
    """Raised when a server differs from its pool: another model, or a shorter context."""

    code = "instance_refused"


class ServerProbe:
    """Looks at one server. `max_model_len` is what its pool promises, in tokens; None: nothing."""

    def __init__(self, client: LlmClient, model: str, max_model_len: int | None) -> None:
        self._client = client
        self._model = model
        self._promised = max_model_len
        self._offered: int | None = None

    @property
    def offered_len(self) -> int | None:
        """The context that the server said it has when it was looked at last, in tokens."""
        return self._offered

    def check(self) -> None:
        """Make sure that the server answers and is what its pool says.

        Raises:
            InstanceRefused: the server differs from its pool.
            HexgenError: it does not answer.
        """
        lengths = self._client.served()
        if not self._client.may_serve(self._model, lengths):
            served = ", ".join(lengths) or "nothing"
            raise InstanceRefused(
                f"the pool's model is {self._model!r}, the server serves {served}",
                field="model",
                hint="mend the pool's `model`, or move the instance to a pool of its own",
            )
        self._offered = lengths.get(self._model)
        self._check_length(self._offered)

    def probe(self, cancel: CancelToken) -> None:
        """Complete one request of one token; `cancel` breaks it off.

        Raises:
            InstanceRefused: the server differs from its pool.
            HexgenError: it could not be completed.
        """
        self.check()
        request = ChatRequest(self._model, (("user", PROBE_TEXT),), max_tokens=1)
        self._client.complete(request, cancel=cancel)

    def _check_length(self, offered: int | None) -> None:
        if self._promised is not None and offered is not None and offered < self._promised:
            raise InstanceRefused(
                f"the pool promises a context of {self._promised} tokens, the server has {offered}",
                field="max_model_len",
                hint="start the server with a longer context, or lower the pool's `max_model_len`",
            )
