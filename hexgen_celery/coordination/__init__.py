"""The coordinator of workflows and what its callers exchange with it."""

from hexgen_celery.coordination.coordinator import Coordinator
from hexgen_celery.coordination.timers import TickReport
from hexgen_celery.outbox import OutboxEntry, Placement, Publisher, TerminalResult
from hexgen_celery.references import ClaimedRequest, RequestRef

__all__ = [
    "ClaimedRequest",
    "Coordinator",
    "OutboxEntry",
    "Placement",
    "Publisher",
    "RequestRef",
    "TerminalResult",
    "TickReport",
]
