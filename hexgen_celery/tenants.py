"""Questions and met deadlines by tenant and SLO class, as the scripts count them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
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


class TenantReader:
    """Reads the counters."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._key = keys.tenants

    def read(self) -> list[ClassAttainment]:
        """Every tenant and class that was ever asked for, by name."""
        fields = cast("dict[str, str]", self._client.hgetall(self._key))
        counted = _counted(fields)
        tenants = sorted({tenant for tenant, _ in counted})
        with self._client.pipeline(transaction=False) as pipeline:
            for tenant in tenants:
                pipeline.zcard(f"{self._key}:{tenant}")
            running = dict(zip(tenants, pipeline.execute(), strict=True))
        return [
            _attainment(tenant, slo_class, int(running[tenant]), counts)
            for (tenant, slo_class), counts in sorted(counted.items())
        ]


def _counted(fields: Mapping[str, str]) -> dict[tuple[str, str], dict[str, int]]:
    counted: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for name, value in fields.items():
        tenant, slo_class, measure = json.loads(name)
        counted[tenant, slo_class][measure] = int(value)
    return counted


def _attainment(
    tenant: str, slo_class: str, in_flight: int, counts: Mapping[str, int]
) -> ClassAttainment:
    ended = sum(counts.get(name, 0) for name in ENDINGS if name != "cancelled")
    simple = {name: counts.get(name, 0) for name in ("accepted", "refused", "answered", "met")}
    return ClassAttainment(tenant, slo_class, in_flight, ended=ended, **simple)
