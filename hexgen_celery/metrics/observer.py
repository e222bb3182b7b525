"""What workers tell about their work."""

from __future__ import annotations

from hexgen_celery.coordination.timers import TickReport
from hexgen_celery.references import ClaimedRequest
from hexgen_celery.workflows.definition import Json


class Observer:
    """Hears what happens in this process, and does nothing: metrics are off. Times in seconds.

    Those that do something are thread-safe and never raise.
    """

    def claimed(self, request: ClaimedRequest, pool: str) -> None:
        """A request was claimed from a pool's queue (or `sql`)."""

    def ended(
        self, request: ClaimedRequest, pool: str, instance: str, verdict: str, seconds: float
    ) -> None:
        """The attempt ended after `seconds`: done, failed, cancelled or handed_back."""

    def failed(self, stage: str, code: str) -> None:
        """The attempt failed with an error of `code`."""

    def completed(self, stage: str, instance: str, result: Json) -> None:
        """A request of the LLM or the sandbox has `result`."""

    def refused(self, code: str) -> None:
        """A question was refused."""

    def ticked(self, report: TickReport) -> None:
        """The timers were looked at."""

    def predicted(self, about: str, predicted: float, true: float, *, inside: bool) -> None:
        """A prediction came out; `inside` its 80 % interval, or not."""

    def recorded(self, rows: int) -> None:
        """So many rows were written to the store."""
