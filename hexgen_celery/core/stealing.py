"""Whether an instance with room may take a request that waits elsewhere.

`none` leaves it: dispatch has decided. `most-urgent` takes the most urgent request that would end
sooner here than where it waits, by a margin that covers estimation error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from hexgen_celery.core.admission import Allowance
from hexgen_celery.core.order.claim import EntryT, by_urgency
from hexgen_celery.core.registry import NoParameters, Registry


@dataclass(frozen=True, slots=True)
class StealCandidate(Generic[EntryT]):
    """A request waiting elsewhere, with the seconds to its end there and here."""

    entry: EntryT
    seconds_there: float
    seconds_here: float

    @property
    def gain(self) -> float:
        """Seconds the request would end sooner."""
        return self.seconds_there - self.seconds_here


class StealingPolicy(Protocol):
    """Chooses what to take from other queues."""

    name: str
    enabled: bool

    def choose(
        self, candidates: Sequence[StealCandidate[EntryT]], allowance: Allowance
    ) -> StealCandidate[EntryT] | None:
        """The candidate to take, or `None`."""
        ...


STEALING: Registry[StealingPolicy] = Registry("stealing policy")


def build_stealing(name: str, **parameters: Any) -> StealingPolicy:
    """Build the stealing policy `name`; raises `UnknownName` or `InvalidParameter`."""
    return STEALING.build(name, **parameters)


@STEALING.register("none")
class NoStealing:
    """Every request stays where it was sent."""

    name = "none"
    enabled = False

    def __init__(self, _parameters: NoParameters) -> None:
        pass

    def choose(
        self, _candidates: Sequence[StealCandidate[EntryT]], _allowance: Allowance
    ) -> StealCandidate[EntryT] | None:
        return None


@dataclass(frozen=True, slots=True)
class StealMostUrgentParameters:
    """`margin_seconds`: how much sooner a request must end here to be moved."""

    margin_seconds: float = 1.0


@STEALING.register("most-urgent", StealMostUrgentParameters)
class StealMostUrgent:
    """The most urgent request that ends sooner here."""

    name = "most-urgent"
    enabled = True

    def __init__(self, parameters: StealMostUrgentParameters) -> None:
        self._margin = parameters.margin_seconds

    def choose(
        self, candidates: Sequence[StealCandidate[EntryT]], allowance: Allowance
    ) -> StealCandidate[EntryT] | None:
        gaining = (
            candidate
            for candidate in candidates
            if candidate.gain > self._margin and allowance.fits(candidate.entry.cost)
        )
        return min(gaining, key=lambda candidate: by_urgency(candidate.entry), default=None)
