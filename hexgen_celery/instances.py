"""LLM instances as their workers announce them: one record per instance, renewed by a heartbeat."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, cast

import redis
import structlog

from hexgen_celery.keys import Keys

log = structlog.get_logger(__name__)

MICROSECONDS = 1_000_000
_SHOWN = 200


class InstanceState(StrEnum):
    """The life of an instance. Only `ready` ones are sent requests.

    `starting`: no request was completed yet. `suspect`: requests or checks failed just now; a probe
    decides. `down`: probes fail, or the server is refused. `draining`: it finishes what it runs.
    """

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    SUSPECT = "suspect"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """One LLM server and the worker that feeds it.

    `queue` is its pool's; `own_queue` its own. `beat` is Unix seconds on Redis' clock, so that
    hosts need not agree on the time; `epoch` when it last became ready, with whatever prefix cache
    it had before lost. `reason` says why it is not ready. `speed`: how many times faster than its
    profile it runs, which only emulated instances do. `max_model_len` is the context that its pool
    promises and `offered_len` what its server says it has, in tokens; None if unknown.
    """

    name: str
    queue: str
    gpu: str
    model: str
    profile: str
    url: str
    worker: str
    concurrency: int
    state: str = InstanceState.READY
    beat: float = 0.0
    epoch: float = 0.0
    reason: str = ""
    speed: float = 1.0
    max_model_len: int | None = None
    tags: tuple[str, ...] = ()
    offered_len: int | None = None

    @property
    def ready(self) -> bool:
        """Whether its worker said that it can serve, the last time it was heard of."""
        return self.state == InstanceState.READY

    @property
    def own_queue(self) -> str:
        """The queue of requests for this very instance."""
        return own_queue(self.queue, self.name)

    def has_room(self, context_tokens: int) -> bool:
        """Whether prompt and answer of together so many tokens fit by what its pool promises."""
        return self.max_model_len is None or context_tokens <= self.max_model_len

    def offers_room(self, context_tokens: int) -> bool:
        """Whether they fit by what its server says, too."""
        offered = self.offered_len is None or context_tokens <= self.offered_len
        return offered and self.has_room(context_tokens)

    @property
    def context_len(self) -> int | None:
        """Tokens of its context, as far as is known."""
        known = (each for each in (self.max_model_len, self.offered_len) if each is not None)
        return min(known, default=None)

    def is_longer_than(self, context_tokens: int) -> bool:
        """Whether its context is known to be longer."""
        return self.context_len is not None and self.context_len > context_tokens

    def alive(self, now: float, dead_after_seconds: float) -> bool:
        """Whether requests may be sent there at `now` (Redis' clock)."""
        return self.ready and now - self.beat <= dead_after_seconds

    def state_at(self, now: float, dead_after_seconds: float) -> InstanceState:
        """The state at `now`: one that is not heard of any more is down."""
        if now - self.beat > dead_after_seconds:
            return InstanceState.DOWN
        return InstanceState(self.state)


_FIELDS = frozenset(field.name for field in fields(InstanceRecord))
_STATES = frozenset(InstanceState)
_NUMBER = (int, float)
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("name", "queue", "gpu", "model", "profile", "url"), str),
    **dict.fromkeys(("worker", "state", "reason"), str),
    **dict.fromkeys(("beat", "epoch", "speed"), _NUMBER),
    "concurrency": int,
    "max_model_len": (int, type(None)),
}


def own_queue(pool_queue: str, instance: str) -> str:
    """The queue of requests for one instance of a pool."""
    return f"{pool_queue}.{instance}"


class InstanceDirectory:
    """The records of all instances."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._key = keys.instances
        self._drains = keys.drains

    def announce(self, record: InstanceRecord) -> bool:
        """Write `record` with the present time as its beat; whether it is to be drained."""
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            pipeline.hexists(self._drains, record.name)
            now, draining = pipeline.execute()
        values = {**asdict(record), "beat": redis_seconds(now)}
        self._client.hset(self._key, record.name, json.dumps(values, separators=(",", ":")))
        return bool(draining)

    def withdraw(self, name: str) -> None:
        """Remove the record of `name`."""
        self._client.hdel(self._key, name)

    def forget_silent(self, seconds: float) -> list[str]:
        """Remove the records that were not renewed for so long; the names."""
        now, records = self.snapshot()
        silent = [record.name for record in records if now - record.beat > seconds]
        if silent:
            self._client.hdel(self._key, *silent)
        return silent

    def drain(self, name: str, why: str = "drained by an operator") -> None:
        """Let the instance finish what it runs and take nothing more."""
        self._client.hset(self._drains, name, why)

    def resume(self, name: str) -> bool:
        """Let a drained instance take requests again; False when it was not drained."""
        return bool(self._client.hdel(self._drains, name))

    def snapshot(self) -> tuple[float, list[InstanceRecord]]:
        """Redis' time (Unix seconds) and every record, by name."""
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            pipeline.hvals(self._key)
            now, values = pipeline.execute()
        return redis_seconds(now), parse_records(values)


def redis_seconds(answer: Any) -> float:
    """The answer of Redis' TIME as Unix seconds."""
    seconds, microseconds = cast(tuple[int, int], answer)
    return float(seconds) + float(microseconds) / MICROSECONDS


def parse_record(value: str | bytes) -> InstanceRecord | None:
    """The record in JSON `value`; fields of other versions are left out.

    None, with a warning, for what is no record, such as that of another release without one of the
    fields: one such announcement must not hide all the others. A state of another release is down.
    """
    known: object = None
    try:
        known = json.loads(value)
        return _checked(cast("dict[str, Any]", known))
    except (ValueError, TypeError, AttributeError) as error:
        name = known.get("name") if isinstance(known, dict) else value[:_SHOWN]
        _warn_once(str(name), str(error))
        return None


def parse_records(values: Iterable[str | bytes]) -> list[InstanceRecord]:
    """The records in JSON `values`, by name; what is no record is left out."""
    known = (record for record in map(parse_record, values) if record is not None)
    return sorted(known, key=lambda record: record.name)


def _checked(announced: dict[str, Any]) -> InstanceRecord:
    """The record; its fields may hold anything that JSON can."""
    known = {name: each for name, each in announced.items() if name in _FIELDS}
    record = InstanceRecord(**{**known, "tags": tuple(known.get("tags", ()))})
    wrong = [name for name, kind in _KINDS.items() if not isinstance(getattr(record, name), kind)]
    if not all(isinstance(tag, str) for tag in record.tags):
        wrong.append("tags")
    if wrong:
        raise TypeError(f"{', '.join(wrong)}: of another kind than expected")
    if record.state in _STATES:
        return record
    reason = f"its worker says {record.state!r}, a state that this release does not know"
    return replace(record, state=InstanceState.DOWN, reason=reason)


@lru_cache(maxsize=1000)
def _warn_once(name: str, error: str) -> None:
    """Once in a process: it is announced again with every heartbeat."""
    log.warning("an instance is left out", instance=name, error=error)
