"""The one body of every stage task: claim, run, report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import redis
import structlog
import tenacity

from hexgen_celery.errors import HexgenError, ModelUnavailable, RequestCancelled
from hexgen_celery.llm import CancelToken
from hexgen_celery.redis_client import may_pass
from hexgen_celery.references import ClaimedRequest, RequestRef
from hexgen_celery.workflows.definition import Json
from workers.cancellation import SHUTDOWN, SILENT_SERVER, InFlight, Running

log = structlog.get_logger(__name__)

RESULT = TypeVar("RESULT")


class AttemptFailed(Exception):
    """An attempt at a request failed, which the coordinator already knows: Celery's event only."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a request came to: the small result, and the bulk (rows) where there is any."""

    result: Json
    bulk: Json | None = None


class RequestExecutor(Protocol):
    """Runs claimed requests of one kind."""

    def execute(self, request: ClaimedRequest, cancel: CancelToken) -> Done:
        """Run `request` to its end.

        Raises:
            RequestCancelled: `cancel` was set.
            HexgenError: it failed; only `ModelUnavailable` is worth another attempt elsewhere.
        """
        ...


class Transitions(Protocol):
    """The coordinator's transitions of one request."""

    def claim(
        self, ref: RequestRef, *, worker: str, instance: str = "", queue: str = ""
    ) -> ClaimedRequest | None:
        """The request, or None when this delivery is stale."""
        ...

    def complete(self, ref: RequestRef, result: Json, bulk: Json | None = None) -> None:
        """Record the outcome and what follows from it."""
        ...

    def fail(self, ref: RequestRef, error: Json, *, retryable: bool) -> None:
        """Record a failed attempt."""
        ...

    def hand_back(self, ref: RequestRef, error: Json) -> None:
        """Record that the attempt was stopped for no fault of its own."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request runs: worker, LLM instance and queue, as the trace names them."""

    worker: str
    instance: str = ""
    queue: str = ""


class RequestRunner:
    """Runs stage tasks in this process. Safe from many threads.

    A coordinator that cannot be reached is tried again for `patience_seconds`, as long as the lease
    lasts; then the attempt is left to the sweep.
    """

    def __init__(
        self,
        transitions: Transitions,
        executor: RequestExecutor,
        in_flight: InFlight,
        place: Place,
        *,
        patience_seconds: float,
    ) -> None:
        self._transitions = transitions
        self._executor = executor
        self._in_flight = in_flight
        self._place = place
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(may_pass),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=2.0),
            stop=tenacity.stop_after_delay(patience_seconds),
            reraise=True,
        )

    def run(
        self,
        workflow_id: str,
        node_id: str,
        attempt: int,
        queue: str = "",
        latest_start: float | None = None,
    ) -> str:
        """Work on one delivery; returns what became of it in one word, for logs and events.

        `latest_start` is the rank that its message had in `queue`.

        Raises:
            AttemptFailed: the attempt failed; this is recorded, and what follows is under way.
        """
        ref = RequestRef(workflow_id, node_id, attempt)
        with (
            structlog.contextvars.bound_contextvars(workflow=workflow_id, request=node_id),
            self._in_flight.track(ref) as running,
        ):
            try:
                return self._work(running, queue or self._place.queue, latest_start)
            except redis.RedisError as error:
                log.error("request left to the sweep", error=str(error))
                return "lost"

    def _work(self, running: Running, queue: str, latest_start: float | None) -> str:
        request = self._patiently(self._claim, running.ref, queue)
        if request is None:
            log.debug("stale delivery", attempt=running.ref.attempt)
            return "stale"
        running.claimed = True
        return self._execute(replace(request, latest_start=latest_start), running)

    def _claim(self, ref: RequestRef, queue: str) -> ClaimedRequest | None:
        place = self._place
        return self._transitions.claim(
            ref, worker=place.worker, instance=place.instance, queue=queue
        )

    def _execute(self, request: ClaimedRequest, running: Running) -> str:
        try:
            done = self._executor.execute(request, running.token)
        except RequestCancelled as error:
            return self._stopped(running, error)
        except redis.RedisError:
            raise
        except HexgenError as error:
            self._failed(running, error, retryable=isinstance(error, ModelUnavailable))
            raise AttemptFailed(str(error)) from None
        except Exception as error:
            log.exception("request failed unexpectedly")
            self._failed(running, _unexpected(error), retryable=True)
            raise AttemptFailed(repr(error)) from None
        self._patiently(self._transitions.complete, running.ref, done.result, done.bulk)
        return "done"

    def _stopped(self, running: Running, error: RequestCancelled) -> str:
        if running.token.reason == SILENT_SERVER:
            silent = ModelUnavailable(SILENT_SERVER, hint="look at the server's log")
            self._failed(running, silent, retryable=True)
            raise AttemptFailed(str(silent)) from None
        if running.token.reason != SHUTDOWN:
            return "cancelled"
        self._patiently(self._transitions.hand_back, running.ref, dict(error.to_json()))
        return "handed back"

    def _failed(self, running: Running, error: HexgenError, *, retryable: bool) -> None:
        log.warning("request failed", error=str(error), code=error.code, retryable=retryable)
        self._patiently(
            lambda: self._transitions.fail(running.ref, dict(error.to_json()), retryable=retryable)
        )

    def _patiently(self, call: Callable[..., RESULT], *arguments: Any) -> RESULT:
        return self._retrying.copy()(call, *arguments)


def _unexpected(error: Exception) -> HexgenError:
    return HexgenError(
        f"unexpected {type(error).__name__}: {error}", hint="the worker's log has the details"
    )
