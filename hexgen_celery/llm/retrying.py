"""When a failed attempt is made again: tenacity with full jitter and the server's Retry-After."""

from __future__ import annotations

import structlog
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from hexgen_celery.llm.failures import TransientFailure
from hexgen_celery.settings import LlmSettings

RETRY_AFTER_LIMIT_SECONDS = 60.0

log = structlog.get_logger(__name__)


def retrying(settings: LlmSettings) -> AsyncRetrying:
    """Retries of one request. Sleeping between attempts ends at once when the task is cancelled."""
    return AsyncRetrying(
        retry=retry_if_exception(_worth_another_attempt),
        stop=stop_after_attempt(settings.retries + 1),
        wait=_Backoff(settings.backoff_seconds, settings.backoff_max_seconds),
        before_sleep=_report,
        reraise=True,
    )


def _worth_another_attempt(error: BaseException) -> bool:
    """A server that wants us away for longer than a minute is as good as down: give up on it."""
    if not isinstance(error, TransientFailure):
        return False
    return (error.retry_after or 0.0) <= RETRY_AFTER_LIMIT_SECONDS


class _Backoff:
    """Seconds to wait: jittered exponential, but never less than the server asked for."""

    def __init__(self, first: float, longest: float) -> None:
        self._jittered = wait_random_exponential(multiplier=first, max=longest)

    def __call__(self, state: RetryCallState) -> float:
        return max(self._jittered(state), _asked_for(state))


def _asked_for(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, TransientFailure) else None
    return asked or 0.0


def _report(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    log.warning(
        "llm.retry",
        attempt=state.attempt_number,
        wait_seconds=state.upcoming_sleep,
        error=str(error),
    )
