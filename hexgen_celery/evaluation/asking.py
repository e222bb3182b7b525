"""Asking the questions of a run, a fixed number at a time, so that deadlines mean something."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

from hexgen_celery.answers import Outcome
from hexgen_celery.evaluation.questions import GoldQuestion

GRACE_SECONDS = 30.0

P = TypeVar("P", bound="Asked")


class Asked(Protocol):
    """A question that was sent."""

    @property
    def id(self) -> str: ...


class Asker(Protocol[P]):
    """A client of a deployment."""

    def ask(
        self,
        question: str,
        database: str,
        slo_seconds: float | None = None,
        *,
        evidence: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> P: ...

    def completed(
        self, pendings: Iterable[P], *, timeout: float | None = None
    ) -> Iterator[tuple[P, Outcome]]: ...


def _nobody(_question: GoldQuestion, _workflow_id: str) -> None:
    """Nobody needs to know what was asked."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How each question is asked: seconds it may take, options, and how many at a time.

    `on_asked` is told the id under which each was asked.
    """

    slo_seconds: float
    options: Mapping[str, Any]
    parallel: int
    on_asked: Callable[[GoldQuestion, str], object] = _nobody


@dataclass(frozen=True, slots=True)
class _Flight:
    question: GoldQuestion
    pending: Any
    until: float


def ask_all(
    client: Asker[Any], questions: Iterable[GoldQuestion], manner: Manner
) -> Iterator[tuple[GoldQuestion, Outcome | None]]:
    """Each question with its outcome as it ends; None for one that never ended."""
    waiting = iter(questions)
    flights: dict[str, _Flight] = {}
    while True:
        for question in islice(waiting, manner.parallel - len(flights)):
            flight = _send(client, question, manner)
            flights[flight.pending.id] = flight
        if not flights:
            return
        yield from _next_ends(client, flights)


def _send(client: Asker[Any], question: GoldQuestion, manner: Manner) -> _Flight:
    pending = client.ask(
        question.question,
        question.database,
        manner.slo_seconds,
        evidence=question.evidence,
        options={**manner.options, "question_key": question.key},
    )
    manner.on_asked(question, pending.id)
    return _Flight(question, pending, time.monotonic() + manner.slo_seconds + GRACE_SECONDS)


def _next_ends(
    client: Asker[Any], flights: dict[str, _Flight]
) -> Iterator[tuple[GoldQuestion, Outcome | None]]:
    """The next question that ends, or those that are overdue when none does."""
    patience = min(flight.until for flight in flights.values()) - time.monotonic()
    pendings = [flight.pending for flight in flights.values()]
    for pending, outcome in client.completed(pendings, timeout=max(0.0, patience)):
        yield flights.pop(pending.id).question, outcome
        return
    overdue = [name for name, each in flights.items() if each.until <= time.monotonic()]
    for name in overdue:
        yield flights.pop(name).question, None
