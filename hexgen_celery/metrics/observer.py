"""What workers tell about their work; `Unobserved` where metrics are off."""

from __future__ import annotations

from typing import Protocol

from hexgen_celery.coordination.timers import TickReport
from hexgen_celery.references import ClaimedRequest
from hexgen_celery.workflows.definition import Json


class Observer(Protocol):
    """Hears what happens in this process. Thread-safe, never raises. Times in seconds."""

    def claimed(self, request: ClaimedRequest, pool: str) -> None:
        """A request was claimed from a pool's queue (or `sql`)."""
        ...

    def ended(
        self, request: ClaimedRequest, pool: str, instance: str, verdict: str, seconds: float
    ) -> None:
        """The attempt ended after `seconds`: done, failed, cancelled or handed_back."""
        ...

    def failed(self, stage: str, code: str) -> None:
        """The attempt failed with an error of `code`."""
        ...

    def completed(self, stage: str, instance: str, result: Json) -> None:
        """A request of the LLM or the sandbox has `result`."""
        ...

    def refused(self, code: str) -> None:
        """A question was refused."""
        ...

    def ticked(self, report: TickReport) -> None:
        """The timers were looked at."""
        ...

    def predicted(self, about: str, predicted: float, true: float, *, inside: bool) -> None:
        """A prediction came out; `inside` its 80 % interval, or not."""
        ...

    def recorded(self, rows: int) -> None:
        """So many rows were written to the store."""
        ...


class Unobserved:
    """Nobody listens."""

    def claimed(self, request: ClaimedRequest, pool: str) -> None:
        """See `Observer`."""

    def ended(
        self, request: ClaimedRequest, pool: str, instance: str, verdict: str, seconds: float
    ) -> None:
        """See `Observer`."""

    def failed(self, stage: str, code: str) -> None:
        """See `Observer`."""

    def completed(self, stage: str, instance: str, result: Json) -> None:
        """See `Observer`."""

    def refused(self, code: str) -> None:
        """See `Observer`."""

    def ticked(self, report: TickReport) -> None:
        """See `Observer`."""

    def predicted(self, about: str, predicted: float, true: float, *, inside: bool) -> None:
        """See `Observer`."""

    def recorded(self, rows: int) -> None:
        """See `Observer`."""
