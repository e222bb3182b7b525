"""Questions and met deadlines by tenant and SLO class, as the scripts count them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import redis

from hexgen_celery.keys import Keys

ENDINGS = ("answered", "failed", "expired", "cancelled")


@dataclass(frozen=True, slots=True)
class ClassAttainment:
    """Questions of one tenant in one SLO class ("": the SLO was given in seconds).

    `in_flight` is the whole tenant's. `ended` leaves out those that were cancelled.
    """

    tenant: str
    slo_class: str
    in_flight: int = 0
    accepted: int = 0
    refused: int = 0
    ended: int = 0
    answered: int = 0
    met: int = 0

    @property
    def attainment(self) -> float | None:
        """The share of ended questions that were answered by their deadline; None before any."""
        return self.met / self.ended if self.ended else None


@dataclass(frozen=True, slots=True)
class Past:
    """A stretch of the past, counted in `periods` of `seconds` each, the present one among them."""

    seconds: int
    periods: int


HOUR = Past(300, 12)
DAY = Past(3600, 24)


class TenantReader:
    """Reads the counters."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._key = keys.tenants

    def read(self) -> list[ClassAttainment]:
        """Every tenant and class that was ever asked for, by name."""
        fields = cast("dict[str, str]", self._client.hgetall(self._key))
        return self._attainments(_counted([fields]))

    def recent(self, past: Past) -> list[ClassAttainment]:
        """Every tenant and class of which something was counted in `past`, up to now."""
        now, _ = self._client.time()
        last = int(now) // past.seconds
        with self._client.pipeline(transaction=False) as pipeline:
            for number in range(last - past.periods + 1, last + 1):
                pipeline.hgetall(self._keys.tenants_in(past.seconds, number))
            return self._attainments(_counted(pipeline.execute()))

    def _attainments(
        self, counted: Mapping[tuple[str, str], Mapping[str, int]]
    ) -> list[ClassAttainment]:
        tenants = sorted({tenant for tenant, _ in counted})
        with self._client.pipeline(transaction=False) as pipeline:
            for tenant in tenants:
                pipeline.zcard(f"{self._key}:{tenant}")
            running = dict(zip(tenants, pipeline.execute(), strict=True))
        return [
            _attainment(tenant, slo_class, int(running[tenant]), counts)
            for (tenant, slo_class), counts in sorted(counted.items())
        ]


def _counted(hashes: Iterable[Mapping[str, str]]) -> dict[tuple[str, str], dict[str, int]]:
    """The sums over `hashes`."""
    counted: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for fields in hashes:
        for name, value in fields.items():
            tenant, slo_class, measure = json.loads(name)
            counted[tenant, slo_class][measure] += int(value)
    return counted


def _attainment(
    tenant: str, slo_class: str, in_flight: int, counts: Mapping[str, int]
) -> ClassAttainment:
    ended = sum(counts.get(name, 0) for name in ENDINGS if name != "cancelled")
    simple = {name: counts.get(name, 0) for name in ("accepted", "refused", "answered", "met")}
    return ClassAttainment(tenant, slo_class, in_flight, ended=ended, **simple)
