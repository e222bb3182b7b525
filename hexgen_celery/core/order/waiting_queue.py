"""The claim rule over a queue that is kept in order, for many requests and many claims."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Generic

from hexgen_celery.core.admission import Allowance
from hexgen_celery.core.order.claim import (
    Claim,
    ClaimRules,
    EntryT,
    Waiting,
    by_age,
    by_urgency,
    demoted_turn,
    first_that_fits,
)

Rank = Callable[[Waiting], tuple[float, str]]


class WaitingQueue(Generic[EntryT]):
    """Waiting entries in their two lines; `claim` over it equals `core.order.claim.select`.

    Time must not go back between claims: an entry once demoted stays so.
    """

    def __init__(self) -> None:
        self.feasible: list[EntryT] = []
        self.demoted: list[EntryT] = []
        self._expiry: list[tuple[float, str]] = []
        self._entries: dict[str, EntryT] = {}
        self._late: set[str] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._entries

    def __iter__(self) -> Iterator[EntryT]:
        return iter(self._entries.values())

    def put(self, entry: EntryT) -> None:
        """Add an entry; its id must not be waiting here."""
        if entry.request_id in self._entries:
            raise ValueError(f"request {entry.request_id} is waiting already")
        self._entries[entry.request_id] = entry
        insort(self.feasible, entry, key=by_urgency)
        heapq.heappush(self._expiry, (entry.feasible_until, entry.request_id))

    def remove(self, request_id: str) -> EntryT | None:
        """Take an entry out; `None` when it is not waiting."""
        entry = self._entries.pop(request_id, None)
        if entry is None:
            return None
        if request_id in self._late:
            self._late.discard(request_id)
            _delete(self.demoted, entry, by_age)
        else:
            _delete(self.feasible, entry, by_urgency)
        return entry

    def demote(self, now: float) -> None:
        """Move entries whose last feasible moment has passed to the demoted line."""
        while self._expiry and self._expiry[0][0] < now:
            moment, request_id = heapq.heappop(self._expiry)
            entry = self._entries.get(request_id)
            # The id may have left, or have come back with another moment.
            if entry is None or request_id in self._late or entry.feasible_until != moment:
                continue
            _delete(self.feasible, entry, by_urgency)
            insort(self.demoted, entry, key=by_age)
            self._late.add(request_id)


def _delete(line: list[EntryT], entry: EntryT, rank: Rank) -> None:
    del line[bisect_left(line, rank(entry), key=rank)]


def claim(
    queues: Sequence[WaitingQueue[EntryT]],
    now: float,
    claims: int,
    allowance: Allowance,
    rules: ClaimRules,
) -> Claim[EntryT]:
    """Apply the claim rule to all entries of `queues` together; takes nothing out itself."""
    for queue in queues:
        queue.demote(now)
    feasible = _merged([queue.feasible for queue in queues], by_urgency)
    demoted = _merged([queue.demoted for queue in queues], by_age)
    if demoted_turn(claims, rules):
        return first_that_fits(chain(demoted, feasible), allowance, rules)
    return first_that_fits(chain(feasible, demoted), allowance, rules)


def _merged(lines: list[list[EntryT]], rank: Rank) -> Iterator[EntryT]:
    occupied = [line for line in lines if line]
    if len(occupied) == 1:
        return iter(occupied[0])
    return heapq.merge(*occupied, key=rank)
