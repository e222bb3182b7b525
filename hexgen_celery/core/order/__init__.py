"""Which waiting request goes first: orders by name, and the claim rule."""

from hexgen_celery.core.order import (
    fcfs,
    latest_start_time,
    least_laxity,
    oldest_question,
    stage_budget,
)
from hexgen_celery.core.order.base import ORDER, OrderPolicy, build_order
from hexgen_celery.core.order.claim import Claim, ClaimRules, WaitingEntry, select
from hexgen_celery.core.order.waiting_queue import WaitingQueue, claim

__all__ = [
    "ORDER",
    "Claim",
    "ClaimRules",
    "OrderPolicy",
    "WaitingEntry",
    "WaitingQueue",
    "build_order",
    "claim",
    "fcfs",
    "latest_start_time",
    "least_laxity",
    "oldest_question",
    "select",
    "stage_budget",
]
