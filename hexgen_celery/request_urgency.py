"""By what a request is queued: its latest start by the chosen order, and what it costs. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hexgen_celery.core.order import OrderPolicy
from hexgen_celery.core.urgency import latest_start
from hexgen_celery.core.views import RequestView
from hexgen_celery.instances import MICROSECONDS
from hexgen_celery.transport.messages import Urgency
from hexgen_celery.workflows.definition import Submission


@dataclass(frozen=True, slots=True)
class Work:
    """What a request costs where it waits: tokens, and integer microseconds, so that they sum to
    exactly zero."""

    prefill_tokens: int = 0
    output_tokens: int = 0
    prefill_us: int = 0
    decode_us: int = 0

    @property
    def seconds(self) -> float:
        """All of it."""
        return (self.prefill_us + self.decode_us) / MICROSECONDS


def request_urgency(request: RequestView, work: Work, order: OrderPolicy) -> Urgency:
    """The urgency of an LLM request that is so much work where it waits.

    What is left of its question is at least the request itself.
    """
    own_seconds = work.seconds
    if request.remaining_seconds < own_seconds:
        request = replace(request, remaining_seconds=own_seconds)
    return Urgency(
        key=order.key(request, own_seconds),
        feasible_until=order.feasible_until(request),
        since=request.submitted_at,
        kv_tokens=work.prefill_tokens + work.output_tokens,
        prefill_tokens=work.prefill_tokens,
        prefill_us=work.prefill_us,
        decode_us=work.decode_us,
    )


def question_urgency(submission: Submission) -> Urgency:
    """The urgency of what takes no time to speak of, an SQL statement: its question's deadline."""
    return Urgency(
        key=latest_start(submission.deadline, 0.0),
        feasible_until=submission.deadline,
        since=submission.submitted_at,
    )
