"""By what a request is queued: its latest start by the chosen order, and what it costs. Pure."""

from __future__ import annotations

from dataclasses import replace

from hexgen_celery.core.order import OrderPolicy
from hexgen_celery.core.urgency import latest_start
from hexgen_celery.core.views import RequestView
from hexgen_celery.instances import MICROSECONDS
from hexgen_celery.outbox import Placement
from hexgen_celery.transport.messages import Urgency
from hexgen_celery.workflows.definition import Submission


def request_urgency(request: RequestView, placement: Placement, order: OrderPolicy) -> Urgency:
    """The urgency of an LLM request that waits where `placement` says.

    What is left of its question is at least the request itself.
    """
    prefill_us, decode_us = placement.prefill_us or 0, placement.decode_us or 0
    own_seconds = (prefill_us + decode_us) / MICROSECONDS
    known = replace(request, remaining_seconds=max(request.remaining_seconds, own_seconds))
    prefill_tokens = placement.prefill_tokens or 0
    return Urgency(
        key=order.key(known, own_seconds),
        feasible_until=order.feasible_until(known),
        since=request.submitted_at,
        kv_tokens=prefill_tokens + (placement.output_tokens or 0),
        prefill_tokens=prefill_tokens,
        prefill_us=prefill_us,
        decode_us=decode_us,
    )


def question_urgency(submission: Submission) -> Urgency:
    """The urgency of what takes no time to speak of, an SQL statement: its question's deadline."""
    return Urgency(
        key=latest_start(submission.deadline, 0.0),
        feasible_until=submission.deadline,
        since=submission.submitted_at,
    )
