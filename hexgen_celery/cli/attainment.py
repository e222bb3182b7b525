"""Met deadlines by tenant and SLO class, for people and programs: ever, last day, last hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hexgen_celery.api import Client
from hexgen_celery.cli.output import console, table
from hexgen_celery.tenants import DAY, HOUR, ClassAttainment

COLUMNS = (
    "tenant",
    "SLO class",
    "in flight",
    "accepted",
    "refused",
    "answered",
    "in time",
    "last day",
    "last hour",
)
Named = dict[tuple[str, str], ClassAttainment]


@dataclass(frozen=True, slots=True)
class Attainment:
    """The same figures over three stretches of time."""

    ever: Sequence[ClassAttainment]
    day: Named
    hour: Named

    @classmethod
    def read(cls, client: Client) -> Attainment:
        """As it is now."""
        day, hour = (_named(client.attainment(past)) for past in (DAY, HOUR))
        return cls(client.attainment(), day, hour)

    def to_json(self) -> list[dict[str, Any]]:
        """By tenant and class; `last_day` and `last_hour` are null where nothing was counted."""
        return [
            {
                **_json(one),
                "last_day": _json(self.day.get(_name(one))) or None,
                "last_hour": _json(self.hour.get(_name(one))) or None,
            }
            for one in self.ever
        ]

    def show(self) -> None:
        """Print a table; nothing where nobody ever asked."""
        if self.ever:
            console.print(table("", COLUMNS, [self._row(one) for one in self.ever]))

    def _row(self, one: ClassAttainment) -> tuple[object, ...]:
        counts = (one.in_flight, one.accepted, one.refused, one.answered)
        recent = (self.day.get(_name(one)), self.hour.get(_name(one)))
        return (one.tenant, one.slo_class or "—", *counts, *map(_share, (one, *recent)))


def _name(one: ClassAttainment) -> tuple[str, str]:
    return one.tenant, one.slo_class


def _named(classes: Sequence[ClassAttainment]) -> Named:
    return {_name(one): one for one in classes}


def _json(one: ClassAttainment | None) -> dict[str, Any]:
    return {} if one is None else {**asdict(one), "attainment": one.attainment}


def _share(one: ClassAttainment | None) -> str:
    """`97.5% of 40`."""
    if one is None or one.attainment is None:
        return "—"
    return f"{one.attainment:.1%} of {one.ended}"
