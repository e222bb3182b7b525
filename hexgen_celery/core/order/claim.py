"""Which waiting request an instance with room takes next: one rule, as a pure function.

The rule, in full (it only compares and counts, so any numbers on one axis will do, integers
included):

1. *Fitting.* An entry fits when `kv_tokens` and `prefill_tokens` of its cost are each ≤ the
   allowance's, and the allowance has a free sequence. Without a free sequence nothing is taken.
2. *Demotion.* An entry is demoted when `now > feasible_until`. The others are feasible.
3. *Lines.* Feasible entries line up by (`key`, `request_id`), demoted ones by
   (`since`, `request_id`), ascending.
4. *Turn.* The demoted line goes first when `claims % every == every − 1`, where `claims` counts
   the claims made before this one; else the feasible line does. The other line follows behind it.
5. *Head.* The first entry of the joined line is the head. If it fits it is taken.
6. *Passing over.* If it does not fit and was passed over `patience` times already, nothing is
   taken: room must free up for it. Otherwise the first of the next `depth` entries that fits is
   taken and the head's count grows by one. If none fits nothing is taken and no count changes.

After a claim that took something the caller adds one to `claims`, and to `passed_over` of the
entry named by `Claim.passed_over`. Since every `every`-th claim serves the oldest demoted entry
first and a head blocks after `patience` passes, no entry that can fit an empty instance starves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Protocol, TypeVar

from hexgen_celery.core.admission import Allowance, ClaimCost
from hexgen_celery.core.defaults import DEFAULTS


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """`every`: one claim in so many goes to the oldest demoted request. `patience`: how often a
    head that does not fit may be passed over. `depth`: how many entries behind it are tried."""

    every: int = DEFAULTS.claim_every
    patience: int = DEFAULTS.claim_patience
    depth: int = DEFAULTS.claim_depth

    def __post_init__(self) -> None:
        for name, least in (("every", 1), ("patience", 0), ("depth", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")


class Waiting(Protocol):
    """What the rule reads of a waiting request."""

    @property
    def request_id(self) -> str: ...

    @property
    def key(self) -> float: ...

    @property
    def feasible_until(self) -> float: ...

    @property
    def since(self) -> float: ...

    @property
    def cost(self) -> ClaimCost: ...

    @property
    def passed_over(self) -> int: ...


@dataclass(slots=True)
class WaitingEntry:
    """One waiting request: rank, last feasible moment, age (when its question was submitted)."""

    request_id: str
    key: float
    feasible_until: float
    since: float
    cost: ClaimCost
    passed_over: int = 0


EntryT = TypeVar("EntryT", bound=Waiting)


@dataclass(frozen=True, slots=True)
class Claim(Generic[EntryT]):
    """The entry to take, if any, and the head that was passed over for it, if any."""

    taken: EntryT | None
    passed_over: EntryT | None = None


def select(
    waiting: Iterable[EntryT], now: float, claims: int, allowance: Allowance, rules: ClaimRules
) -> Claim[EntryT]:
    """Apply the rule of this module to the entries waiting, in any order."""
    entries = list(waiting)
    feasible = sorted((e for e in entries if now <= e.feasible_until), key=by_urgency)
    demoted = sorted((e for e in entries if now > e.feasible_until), key=by_age)
    first, second = (demoted, feasible) if demoted_turn(claims, rules) else (feasible, demoted)
    return first_that_fits(iter(first + second), allowance, rules)


def by_urgency(entry: Waiting) -> tuple[float, str]:
    """The order of the feasible line."""
    return entry.key, entry.request_id


def by_age(entry: Waiting) -> tuple[float, str]:
    """The order of the demoted line."""
    return entry.since, entry.request_id


def demoted_turn(claims: int, rules: ClaimRules) -> bool:
    """Whether the next claim goes to the demoted line first."""
    return claims % rules.every == rules.every - 1


def first_that_fits(
    line: Iterator[EntryT], allowance: Allowance, rules: ClaimRules
) -> Claim[EntryT]:
    """Steps 5 and 6: the head of the line, or the first near it that fits."""
    head = next(line, None)
    if head is None or not allowance.sequences:
        return Claim(None)
    if allowance.fits(head.cost):
        return Claim(head)
    if head.passed_over >= rules.patience:
        return Claim(None)
    for entry in islice(line, rules.depth):
        if allowance.fits(entry.cost):
            return Claim(entry, head)
    return Claim(None)
