"""The figures of a whole deployment: two round trips, however many questions run.

Nothing is scanned. What others may make large (tenants) is read whole only while it is small.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import redis

from hexgen_celery.core.estimates import Calibration
from hexgen_celery.instances import InstanceRecord, InstanceState, parse_records, redis_seconds
from hexgen_celery.keys import Keys
from hexgen_celery.learning.store import CALIBRATION
from hexgen_celery.ledger import LedgerView, Load, ledger_view
from hexgen_celery.names import ASK_QUEUE, DEFAULT_QUEUE, SQL_QUEUE
from hexgen_celery.processes import ProcessRecord, parse_processes
from hexgen_celery.settings import Settings
from hexgen_celery.store.stream import Backlog, ask_backlog, backlog_of
from hexgen_celery.transport.inspection import lists_of

TENANT_FIELDS = 5000
MILLISECONDS = 1000.0
MEASURES = ("accepted", "refused", "answered", "failed", "expired", "cancelled", "met")


@dataclass(frozen=True, slots=True)
class PoolCounts:
    """What waits for a pool (its own queue and its instances' queues), or in `sql`.

    `late`: of `waiting`, demoted ones. `work_seconds`: estimated work of what waits.
    """

    name: str
    waiting: int = 0
    late: int = 0
    running: int = 0
    work_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class InstanceCounts:
    """One instance: its record, the state it is in now, its load, what waits for it alone."""

    record: InstanceRecord
    state: InstanceState
    running: int
    waiting: int
    kv_tokens: int
    beat_age_seconds: float


@dataclass(frozen=True, slots=True)
class OutboxCounts:
    """Requests that nobody claimed and results that nobody stored.

    `unsent`: of `entries`, those that are not in a queue either. `overdue_seconds`: for how long
    nobody looked after the one that is due first.
    """

    entries: int = 0
    unsent: int = 0
    overdue_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TenantCounts:
    """Questions of a tenant by SLO class and what became of them (`MEASURES`)."""

    tenant: str
    in_flight: int
    classes: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class ClusterCounts:
    """The deployment at `now` (Unix seconds on Redis' clock).

    `timers_age_seconds` None: no control worker ever looked, or not for long. `policies` is the raw
    hash of dispatch policies. `drains`: instance → why it is to be drained.
    """

    now: float
    instances: tuple[InstanceCounts, ...]
    pools: tuple[PoolCounts, ...]
    processes: tuple[ProcessRecord, ...]
    questions_running: int = 0
    submissions_waiting: int = 0
    requests_running: int = 0
    leases_overdue: int = 0
    outbox: OutboxCounts = OutboxCounts()
    store: Backlog = field(default_factory=Backlog)
    timers_age_seconds: float | None = None
    dead_letters: int = 0
    events: int = 0
    last_event: str = ""
    policies: Mapping[str, str] = field(default_factory=dict)
    drains: Mapping[str, str] = field(default_factory=dict)
    tenants: tuple[TenantCounts, ...] = ()
    calibration: Mapping[str, Calibration] = field(default_factory=dict)

    @property
    def queues(self) -> tuple[str, ...]:
        """Every queue of LLM requests that has an instance or is declared, and `sql`."""
        own = (each.record.own_queue for each in self.instances)
        return tuple(dict.fromkeys([*(pool.name for pool in self.pools), *own]))


class CountsReader:
    """Reads the figures; `client` answers in `str`. Thread-safe."""

    def __init__(self, client: redis.Redis, settings: Settings) -> None:
        self._client = client
        self._keys = Keys(settings.broker.prefix)
        self._declared = tuple(pool.queue for pool in settings.pools)
        self._tenants = settings.tenants
        self._dead_after = settings.workers.dead_after_seconds
        self._is_sorted = settings.broker.transport == "urgency"

    def read(self) -> ClusterCounts:
        """The deployment now.

        Raises:
            redis.RedisError: Redis is away.
        """
        raw = self._first()
        now, ledger = redis_seconds(raw["now"]), ledger_view(raw["load"])
        records = parse_records(raw["instances"])
        pools = _pool_queues(records, self._declared)
        late, tenants = self._second(pools, raw["tenant_fields"] <= TENANT_FIELDS)
        swept = raw["swept"]
        return ClusterCounts(
            now=now,
            instances=tuple(self._instance(record, ledger, now) for record in records),
            pools=tuple(_pool(name, queues, ledger, late) for name, queues in pools.items()),
            processes=tuple(each for each in parse_processes(raw["processes"]) if each.alive(now)),
            questions_running=raw["deadlines"],
            submissions_waiting=sum(raw[f"list {name}"] for name in _entrances()),
            requests_running=raw["running"],
            leases_overdue=self._overdue(now),
            outbox=_outbox(raw["outbox"], raw["outbox first"], ledger, now),
            store=backlog_of(raw, now),
            timers_age_seconds=now - int(swept) / MILLISECONDS if swept else None,
            dead_letters=raw["dead"],
            events=raw["events"],
            last_event=raw["last event"][0][0] if raw["last event"] else "",
            policies=raw["policies"],
            drains=raw["drains"],
            tenants=tenants,
            calibration=_calibration(raw["calibration"]),
        )

    def _first(self) -> dict[str, Any]:
        keys = self._keys
        with self._client.pipeline(transaction=False) as pipeline:
            asked: dict[str, Any] = {
                "now": pipeline.time(),
                "instances": pipeline.hvals(keys.instances),
                "processes": pipeline.hvals(keys.processes),
                "drains": pipeline.hgetall(keys.drains),
                "load": pipeline.hgetall(keys.load),
                "policies": pipeline.hgetall(keys.policies),
                "tenant_fields": pipeline.hlen(keys.tenants),
                "deadlines": pipeline.zcard(keys.deadlines),
                "running": pipeline.zcard(keys.running),
                "outbox": pipeline.zcard(keys.outbox),
                "outbox first": pipeline.zrange(keys.outbox, 0, 0, withscores=True),
                "swept": pipeline.get(keys.swept),
                "dead": pipeline.zcard(f"{keys.queue_root}:dead:since"),
                "events": pipeline.xlen(keys.events),
                "last event": pipeline.xrevrange(keys.events, count=1),
                **ask_backlog(pipeline, keys.records),
                "calibration": pipeline.hget(keys.estimates, CALIBRATION),
                **{f"list {name}": pipeline.llen(name) for name in _entrances()},
            }
            return dict(zip(asked, pipeline.execute(), strict=True))

    def _second(
        self, pools: Mapping[str, Sequence[str]], all_tenants: bool
    ) -> tuple[dict[str, int], tuple[TenantCounts, ...]]:
        queues = [queue for each in pools.values() for queue in each] if self._is_sorted else []
        root = self._keys.queue_root
        with self._client.pipeline(transaction=False) as pipeline:
            for queue in queues:
                pipeline.zcard(f"{root}:{queue}:demoted")
            self._ask_tenants(pipeline, all_tenants)
            *late, fields = pipeline.execute()
        if not all_tenants:
            fields = dict(zip(self._declared_fields(), fields, strict=True))
        return dict(zip(queues, late, strict=True)), self._tenant_counts(fields)

    def _ask_tenants(self, pipeline: Any, all_tenants: bool) -> None:
        if all_tenants:
            pipeline.hgetall(self._keys.tenants)
        else:
            pipeline.hmget(self._keys.tenants, self._declared_fields() or [""])

    def _declared_fields(self) -> list[str]:
        """The counters of declared tenants, in the form that the scripts write them in."""
        return [
            json.dumps([tenant.name, slo_class, measure], separators=(",", ":"))
            for tenant in self._tenants
            for slo_class in ("", *(each.name for each in tenant.classes))
            for measure in MEASURES
        ]

    def _tenant_counts(self, fields: Mapping[str, str | None]) -> tuple[TenantCounts, ...]:
        counted: defaultdict[str, defaultdict[str, dict[str, int]]]
        counted = defaultdict(lambda: defaultdict(dict))
        for name, value in fields.items():
            if value is not None:
                tenant, slo_class, measure = json.loads(name)
                counted[tenant][slo_class][measure] = int(value)
        in_flight = self._in_flight(counted)
        return tuple(
            TenantCounts(name, in_flight[name], dict(counted[name])) for name in sorted(counted)
        )

    def _in_flight(self, tenants: Iterable[str]) -> dict[str, int]:
        names = list(tenants)
        with self._client.pipeline(transaction=False) as pipeline:
            for name in names:
                pipeline.zcard(f"{self._keys.tenants}:{name}")
            return dict(zip(names, pipeline.execute(), strict=True))

    def _overdue(self, now: float) -> int:
        until = f"({now * MILLISECONDS:.0f}"
        return int(self._client.zcount(self._keys.running, "-inf", until))

    def _instance(self, record: InstanceRecord, ledger: LedgerView, now: float) -> InstanceCounts:
        load = ledger.instance(record.name)
        return InstanceCounts(
            record=record,
            state=record.state_at(now, self._dead_after),
            running=load.running,
            waiting=ledger.queue(record.own_queue).waiting,
            kv_tokens=load.context_tokens + load.output_tokens,
            beat_age_seconds=max(0.0, now - record.beat),
        )


def _entrances() -> tuple[str, ...]:
    """The lists in which questions wait to be accepted."""
    return (*lists_of(ASK_QUEUE), *lists_of(DEFAULT_QUEUE))


def _pool_queues(
    records: Iterable[InstanceRecord], declared: Iterable[str]
) -> dict[str, list[str]]:
    pools: dict[str, list[str]] = {SQL_QUEUE: [SQL_QUEUE]}
    for queue in declared:
        pools.setdefault(queue, [queue])
    for record in records:
        pools.setdefault(record.queue, [record.queue]).append(record.own_queue)
    return pools


def _pool(
    name: str, queues: Sequence[str], ledger: LedgerView, late: Mapping[str, int]
) -> PoolCounts:
    loads: list[Load] = [ledger.queue(queue) for queue in queues]
    return PoolCounts(
        name=name,
        waiting=sum(load.waiting for load in loads),
        late=sum(late.get(queue, 0) for queue in queues),
        running=sum(load.running for load in loads),
        work_seconds=sum(load.prefill_us + load.decode_us for load in loads) / 1e6,
    )


def _outbox(
    entries: int, first: Sequence[tuple[str, float]], ledger: LedgerView, now: float
) -> OutboxCounts:
    """A request that waits in a queue stays in the outbox until it is claimed."""
    due = first[0][1] / MILLISECONDS if first else now
    queued = sum(load.waiting for load in ledger.queues.values())
    return OutboxCounts(entries, max(0, entries - queued), max(0.0, now - due))


def _calibration(text: str | None) -> dict[str, Calibration]:
    stored = cast("dict[str, Any]", json.loads(text)) if text else {"by_estimate": {}}
    return {name: Calibration(**each) for name, each in stored["by_estimate"].items()}
