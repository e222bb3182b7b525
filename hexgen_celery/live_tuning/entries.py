"""What the tuner decided and predicted, kept in Redis, newest first."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import redis

from hexgen_celery.keys import Keys
from hexgen_celery.live_tuning.review import Prediction, Review

KEPT = 500


@dataclass(frozen=True, slots=True)
class TuningEntry:
    """One decision, at `at` (Unix seconds).

    `chosen` and `incumbent` are dispatch policies with their parameters. `predicted` is the loss
    expected of the chosen one and `measured` the incumbent's in the window, both in the objective's
    unit by the wall clock; `gain` and `confidence` are the simulator's. `review` is how the entry
    that this one judged came out, its numbers None where questions had no end. `backoff` stretches
    the time until the next one. `scope` is whose weight it is (`tenant@model`), `why` in a few
    words why it moved or not, `pending` the time of the entry whose prediction is to be judged
    next, `steady` whether the backlog stayed bounded in the simulation.
    """

    at: float
    objective: str
    questions: int
    rate: float
    chosen: dict[str, Any]
    incumbent: dict[str, Any]
    moved: bool
    reverted: bool
    predicted: float
    measured: float
    gain: float
    confidence: float
    backoff: int = 1
    seconds: float = 0.0
    review: dict[str, Any] | None = field(default=None)
    scope: str = "@"
    why: str = ""
    pending: float = 0.0
    steady: bool = True

    @property
    def prediction(self) -> Prediction:
        """As the next review compares it."""
        return Prediction(self.predicted, self.rate, self.moved, self.measured, self.steady)

    @property
    def changed(self) -> bool:
        """Whether it put another policy in force."""
        return self.moved or self.reverted

    @property
    def error(self) -> float | None:
        """How far off the prediction before this one was, relative; None if it was not judged."""
        if self.review is None:
            return None
        error = self.review["error"]
        return math.inf if error is None else float(error)

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON can hold it: None for infinite losses."""
        return {name: _finite(value) for name, value in asdict(self).items()}


class TuningStore:
    """Reads and writes entries."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._key = keys.tunings

    def add(self, entry: TuningEntry) -> None:
        """Keep `entry` as the newest."""
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.lpush(self._key, json.dumps(entry.to_json()))
            pipeline.ltrim(self._key, 0, KEPT - 1)
            pipeline.execute()

    def recent(self, limit: int = 20) -> list[TuningEntry]:
        """The newest entries, newest first."""
        rows = cast("list[str]", self._client.lrange(self._key, 0, limit - 1))
        return [TuningEntry(**_restored(json.loads(row))) for row in rows]


def review_json(seen: Review | None) -> dict[str, Any] | None:
    """A review as plain values."""
    return None if seen is None else asdict(seen)


def _finite(value: Any) -> Any:
    """Infinite losses (questions without an answer) as JSON can hold them."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _restored(row: dict[str, Any]) -> dict[str, Any]:
    """Losses that were infinite."""
    losses = ("predicted", "measured")
    return {**row, **{name: math.inf for name in losses if row[name] is None}}
