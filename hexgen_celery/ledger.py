"""The load of queues and instances, counted by the scripts that move requests.

Everything is an integer that returns to exactly zero: a request's record says what it added, and
that is what is subtracted. A field that reaches zero is deleted, so an idle deployment has no
ledger at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import cast

import redis

from hexgen_celery.keys import Keys

_INSTANCE = "instance/"


@dataclass(frozen=True, slots=True)
class Load:
    """What a queue, or the requests running on one instance, still has to do.

    Requests waiting and running; prompt tokens not yet computed, output tokens still expected, and
    both again as microseconds of work where the router estimated them; and the whole prompts of the
    unfinished requests. The work of a request is its queue's while it waits, and its instance's
    once it runs on one.
    """

    waiting: int = 0
    running: int = 0
    prefill_tokens: int = 0
    output_tokens: int = 0
    prefill_us: int = 0
    decode_us: int = 0
    context_tokens: int = 0

    @property
    def requests(self) -> int:
        """Requests sent there and not finished."""
        return self.waiting + self.running


@dataclass(frozen=True, slots=True)
class LedgerView:
    """The whole ledger at one moment; whatever is absent is idle."""

    queues: Mapping[str, Load]
    instances: Mapping[str, Load]

    def queue(self, name: str) -> Load:
        """The load of a queue."""
        return self.queues.get(name, Load())

    def instance(self, name: str) -> Load:
        """The load of an instance."""
        return self.instances.get(name, Load())


_MEASURES = frozenset(field.name for field in fields(Load))


class Ledger:
    """Reads the ledger in one round trip."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._key = keys.load

    def read(self) -> LedgerView:
        """The load of everything now."""
        return ledger_view(cast("dict[str, str]", self._client.hgetall(self._key)))


def ledger_view(counters: Mapping[str, str]) -> LedgerView:
    """The ledger that `counters` (`<scope>:<measure>` → integer) hold."""
    scopes: dict[str, dict[str, int]] = {}
    for name, value in counters.items():
        scope, _, measure = name.rpartition(":")
        if measure in _MEASURES:
            scopes.setdefault(scope, {})[measure] = int(value)
    loads = {scope: Load(**measures) for scope, measures in scopes.items()}
    return LedgerView(
        queues={name: load for name, load in loads.items() if not name.startswith(_INSTANCE)},
        instances={
            name.removeprefix(_INSTANCE): load
            for name, load in loads.items()
            if name.startswith(_INSTANCE)
        },
    )
