"""The contract of ordering: a number that stays the same while a request waits."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Protocol

from hexgen_celery.core.registry import NoParameters, Registry
from hexgen_celery.core.views import RequestView


class OrderPolicy(Protocol):
    """Ranks waiting requests; the smallest key is the most urgent.

    `key` must not depend on the present time, so that a sorted set can hold it.
    """

    name: str

    def key(self, request: RequestView, exec_seconds: float) -> float:
        """The rank; `exec_seconds` is t_exec on the instance or pool where it waits."""
        ...

    def feasible_until(self, request: RequestView) -> float:
        """The moment after which the request is demoted; infinity: never."""
        ...


class WithoutDemotion:
    """An order in which lateness changes nothing."""

    name: ClassVar[str]

    def __init__(self, _parameters: NoParameters) -> None:
        pass

    def feasible_until(self, _request: RequestView) -> float:
        return math.inf


ORDER: Registry[OrderPolicy] = Registry("order")


def build_order(name: str, **parameters: Any) -> OrderPolicy:
    """Build the order `name`; raises `UnknownName` or `InvalidParameter`."""
    return ORDER.build(name, **parameters)
