"""Telling an observer about every request that a worker runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from hexgen_celery.errors import HexgenError, RequestCancelled
from hexgen_celery.llm import CancelToken
from hexgen_celery.metrics import Observer
from hexgen_celery.references import ClaimedRequest
from workers.cancellation import SHUTDOWN
from workers.requests import Done, Place, RequestExecutor

UNEXPECTED = "unexpected"


class ObservedExecutor:
    """Runs requests as `executor` does and tells `observer`; `place` names pool and instance."""

    def __init__(
        self,
        executor: RequestExecutor,
        observer: Observer,
        place: Place,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._executor = executor
        self._observer = observer
        self._place = place
        self._now = now

    def execute(self, request: ClaimedRequest, cancel: CancelToken) -> Done:
        """See `RequestExecutor`."""
        began = self._now()
        self._observer.claimed(request, self._place.queue)
        try:
            done = self._executor.execute(request, cancel)
        except RequestCancelled:
            verdict = "handed_back" if cancel.reason == SHUTDOWN else "cancelled"
            self._ended(request, verdict, began)
            raise
        except Exception as error:
            code = error.code if isinstance(error, HexgenError) else UNEXPECTED
            self._observer.failed(request.spec.stage, code)
            self._ended(request, "failed", began)
            raise
        self._observer.completed(request.spec.stage, self._place.instance, done.result)
        self._ended(request, "done", began)
        return done

    def _ended(self, request: ClaimedRequest, verdict: str, began: float) -> None:
        place, seconds = self._place, self._now() - began
        instance = place.instance or place.queue
        self._observer.ended(request, place.queue, instance, verdict, seconds)
