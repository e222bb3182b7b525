"""A thread-safe client of one LLM server.

One event loop thread per process carries every request in flight, so 64 waiting worker threads cost
one socket each and no polling.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import CancelledError, Future
from enum import Enum, auto
from queue import SimpleQueue

from hexgen_celery.closing import Closing
from hexgen_celery.errors import RequestCancelled
from hexgen_celery.llm.activity import Activity
from hexgen_celery.llm.cancel import CancelToken
from hexgen_celery.llm.endpoint import Endpoint
from hexgen_celery.llm.loop_thread import LoopThread
from hexgen_celery.llm.session import ChatSession
from hexgen_celery.llm.types import ChatRequest, Completion
from hexgen_celery.settings import LlmSettings


class _Signal(Enum):
    FIRST_TOKEN = auto()
    DONE = auto()


class LlmClient(Closing):
    """Asks one server. Every method may be called from any thread; each blocks its caller.

    Raises:
        InvalidSettings: `base_url` is no http(s) URL, or the API key file cannot be read.
    """

    def __init__(self, base_url: str, settings: LlmSettings | None = None) -> None:
        self._endpoint = Endpoint.parse(base_url)
        self._loop = LoopThread("llm-client")
        try:
            self._session = self._loop.call(_open(self._endpoint, settings or LlmSettings()))
        except BaseException:
            self._loop.close()
            raise

    @property
    def server(self) -> str:
        """The server's base URL, without `/v1`."""
        return self._endpoint.root

    @property
    def activity(self) -> Activity:
        """What was heard of the server lately by this client."""
        return self._session.activity

    def complete(
        self,
        request: ChatRequest,
        *,
        on_first_token: Callable[[], None] | None = None,
        cancel: CancelToken | None = None,
    ) -> Completion:
        """Ask for one completion and wait for its end.

        `on_first_token` is called in the calling thread, once, before the return; whatever it
        raises ends the request. Setting `cancel` from any thread closes the HTTP stream at once.
        Overload (429), 5xx and lost connections are retried while no token has arrived.

        Raises:
            ModelUnavailable: unreachable, timed out, still failing after the retries, or the model
                is not served there. Another instance may do better.
            ModelRefused: the server rejects this very request (400, 413, …); `ContextOverflow`
                where it is too long.
            RequestCancelled: `cancel` was set, or the client was closed.
        """
        signals: SimpleQueue[_Signal] = SimpleQueue()
        future = self._loop.submit(
            self._session.complete(request, lambda: signals.put(_Signal.FIRST_TOKEN))
        )
        future.add_done_callback(lambda _: signals.put(_Signal.DONE))
        unsubscribe = cancel.subscribe(future.cancel) if cancel else _nothing
        try:
            while signals.get() is _Signal.FIRST_TOKEN:
                (on_first_token or _nothing)()
            return _outcome(future, cancel)
        finally:
            unsubscribe()
            future.cancel()

    def models(self) -> list[str]:
        """The ids of the models served. Raises ModelUnavailable."""
        return self._loop.call(self._session.models())

    def served(self) -> dict[str, int | None]:
        """The models served, each with its context length in tokens where the server tells it.

        Raises:
            ModelUnavailable: the server cannot be asked.
        """
        return self._loop.call(self._session.served())

    def may_serve(self, model: str, served: Collection[str]) -> bool:
        """Whether `model` is among those `served`; a server that lists none may serve any."""
        return self._session.may_serve(model, served)

    def metrics(self) -> str:
        """The text of the server's /metrics. Raises ModelUnavailable where there is none."""
        return self._loop.call(self._session.metrics())

    def version(self) -> str | None:
        """The server's version; an emulated instance's begins with `emulated`."""
        return self._loop.call(self._session.version())

    def tokenize(self, text: str, model: str | None = None) -> int | None:
        """Tokens of `text` by the server's tokenizer; None where it offers none."""
        return self._loop.call(self._session.tokenize(text, model))

    def check(self, model: str) -> None:
        """Make sure the server answers and serves `model`; raises ModelUnavailable otherwise."""
        self._loop.call(self._session.check(model))

    def close(self) -> None:
        """Cancel what is in flight and close every connection."""
        self._loop.call(self._session.close())
        self._loop.close()


async def _open(endpoint: Endpoint, settings: LlmSettings) -> ChatSession:
    """Create the session on the loop it will live on."""
    return ChatSession(endpoint, settings)


def _outcome(future: Future[Completion], cancel: CancelToken | None) -> Completion:
    try:
        return future.result()
    except CancelledError:
        reason = cancel.reason if cancel and cancel.is_set else "the client was closed"
        raise RequestCancelled(f"the request was stopped: {reason}") from None


def _nothing() -> None:
    """Stand in for a callback nobody gave."""
