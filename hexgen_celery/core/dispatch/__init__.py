"""Where a ready request waits: one small module per policy, chosen by name."""

from hexgen_celery.core.dispatch import (
    alpha,
    earliest_completion,
    fastest,
    least_outstanding,
    least_work,
    power_of_two,
    prefix_affinity,
    published,
    published_code,
    qlm_like,
    round_robin,
    shortest_expected_delay,
    uniform_random,
    vtc,
)
from hexgen_celery.core.dispatch.base import (
    DISPATCH,
    DispatchPolicy,
    NoReadyInstance,
    build_dispatch,
)

__all__ = [
    "DISPATCH",
    "DispatchPolicy",
    "NoReadyInstance",
    "alpha",
    "build_dispatch",
    "earliest_completion",
    "fastest",
    "least_outstanding",
    "least_work",
    "power_of_two",
    "prefix_affinity",
    "published",
    "published_code",
    "qlm_like",
    "round_robin",
    "shortest_expected_delay",
    "uniform_random",
    "vtc",
]
