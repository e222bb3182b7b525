"""The live router: a Celery task route that chooses the pool of every LLM request."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, cast

import redis

from hexgen_celery.core.dispatch import DispatchPolicy, build_dispatch
from hexgen_celery.core.order import OrderPolicy, build_order
from hexgen_celery.core.profiles import Profile
from hexgen_celery.core.registry import InvalidParameter, UnknownName
from hexgen_celery.core.scoring import decode_seconds, prefill_seconds, uncached_tokens
from hexgen_celery.core.views import ClusterView, InstanceView, RequestView, Target
from hexgen_celery.errors import HexgenError, InvalidSettings
from hexgen_celery.instances import InstanceRecord, parse_records, redis_seconds
from hexgen_celery.keys import Keys
from hexgen_celery.ledger import LedgerView, ledger_view
from hexgen_celery.live_cluster import (
    MICROSECONDS,
    cluster_view,
    declared_records,
    request_view,
    usable_records,
)
from hexgen_celery.names import SQL_QUEUE
from hexgen_celery.outbox import OutboxEntry, Placement
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.request_urgency import question_urgency, request_urgency
from hexgen_celery.settings import Settings
from hexgen_celery.transport.messages import HEADER
from hexgen_celery.workflows.definition import LlmCall


class NoPool(HexgenError):
    """Raised when no pool can take a request now; it stays in the outbox and is tried again."""

    code = "no_pool"


@dataclass(slots=True)
class Decision:
    """The routing of one message in progress: what is sent, and where it goes once decided."""

    entry: OutboxEntry
    placement: Placement | None = None


@dataclass(frozen=True, slots=True)
class _Snapshot:
    now: float
    records: list[InstanceRecord]
    ledger: LedgerView


_deciding: ContextVar[Decision | None] = ContextVar("deciding", default=None)


class LiveRouter:
    """Chooses by the configured dispatch policy over announced instances and the ledger.

    One round trip to Redis per decision. Safe from many threads: policies may keep state, so that
    they are asked one at a time.

    Raises:
        InvalidSettings: the dispatch policy or one of its parameters is unknown.
        InvalidProfile: a declared pool's profile cannot be read.
    """

    def __init__(
        self, client: redis.Redis, keys: Keys, settings: Settings, rng: random.Random | None = None
    ) -> None:
        self._client = client
        self._keys = keys
        self._settings = settings
        self._declared = declared_records(settings)
        self._profiles: dict[str, Profile] = {}
        self._assigned: defaultdict[str, float] = defaultdict(float)
        self._lock = threading.Lock()
        self._policy = _policy(settings, rng or random.Random())
        self._order = _order(settings)
        for record in self._declared:
            self._profile(record.profile)

    @contextmanager
    def deciding(self, entry: OutboxEntry) -> Iterator[Decision]:
        """Route the message that the block publishes as the request of `entry`."""
        decision = Decision(entry)
        token = _deciding.set(decision)
        try:
            yield decision
        finally:
            _deciding.reset(token)

    def route(
        self,
        _name: str,
        _args: Any = None,
        _kwargs: Any = None,
        _options: Any = None,
        task: Any = None,  # noqa: ARG002
        **_extra: Any,
    ) -> dict[str, Any] | None:
        """Celery's task route: queue and urgency of the request being sent; None for others."""
        decision = _deciding.get()
        if decision is None:
            return None
        decision.placement = self.place(decision.entry)
        return _destination(decision.placement)

    def place(self, entry: OutboxEntry) -> Placement:
        """Where `entry` goes now, and the work that adds to the ledger.

        Raises:
            NoPool: no pool with a live instance serves its model.
        """
        call = entry.spec.call
        if not isinstance(call, LlmCall):
            return Placement(SQL_QUEUE, urgency=question_urgency(entry.submission))
        snapshot = self._snapshot()
        request = request_view(entry, call, snapshot.now)
        cluster = self._cluster(snapshot, request.model)
        with self._lock:
            target = self._policy.choose(request, cluster)
            chosen = _chosen(cluster, target)
            placement = _placement(request, chosen, target, self._order)
            self._assigned[chosen.instance] += _seconds(placement)
        return placement

    def _cluster(self, snapshot: _Snapshot, model: str) -> ClusterView:
        records = usable_records(
            snapshot.records,
            self._declared,
            now=snapshot.now,
            dead_after_seconds=self._settings.workers.dead_after_seconds,
            model=model,
        )
        if not records:
            raise _no_pool(snapshot.records, model)
        profiles = {record.profile: self._profile(record.profile) for record in records}
        return cluster_view(
            records,
            snapshot.ledger,
            profiles,
            now=snapshot.now,
            assigned_seconds=self._assigned,
        )

    def _snapshot(self) -> _Snapshot:
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.time()
            pipeline.hvals(self._keys.instances)
            pipeline.hgetall(self._keys.load)
            now, records, counters = pipeline.execute()
        return _Snapshot(
            redis_seconds(now),
            parse_records(records),
            ledger_view(cast("dict[str, str]", counters)),
        )

    def _profile(self, name: str) -> Profile:
        if name not in self._profiles:
            self._profiles[name] = load_profile(name)
        return self._profiles[name]


def _policy(settings: Settings, rng: random.Random) -> DispatchPolicy:
    router = settings.router
    try:
        return build_dispatch(router.dispatch, rng, **router.parameters)
    except (UnknownName, InvalidParameter) as error:
        raise InvalidSettings(
            str(error), field="router.dispatch", hint="see docs/scheduling.md for the policies"
        ) from error


def _order(settings: Settings) -> OrderPolicy:
    try:
        return build_order(settings.queues.order)
    except UnknownName as error:
        raise InvalidSettings(
            str(error), field="queues.order", hint="see docs/scheduling.md for the orders"
        ) from error


def _destination(placement: Placement) -> dict[str, Any]:
    """What Celery's router must know: the queue, and the header that the message is queued by."""
    if placement.urgency is None:
        return {"queue": placement.queue}
    return {"queue": placement.queue, "headers": {HEADER: placement.urgency.to_header()}}


def _chosen(cluster: ClusterView, target: Target) -> InstanceView:
    """The instance whose profile prices the request: the target, or the first of its pool."""
    return next(
        view
        for view in cluster.instances
        if view.pool == target.pool and target.instance in (None, view.instance)
    )


def _placement(
    request: RequestView, view: InstanceView, target: Target, order: OrderPolicy
) -> Placement:
    uncached = uncached_tokens(request, view)
    placement = Placement(
        queue=target.pool,
        prefill_tokens=uncached,
        output_tokens=round(request.output_tokens),
        prefill_us=round(prefill_seconds(request, view, uncached) * MICROSECONDS),
        decode_us=round(decode_seconds(request, view) * MICROSECONDS),
        reasons={"score": round(target.score, 6), **target.reasons},
    )
    return replace(placement, urgency=request_urgency(request, placement, order))


def _seconds(placement: Placement) -> float:
    return ((placement.prefill_us or 0) + (placement.decode_us or 0)) / MICROSECONDS


def _no_pool(announced: list[InstanceRecord], model: str) -> NoPool:
    wanted = f" serves {model}" if model else " is alive"
    known = ", ".join(f"{record.name} ({record.queue})" for record in announced) or "none"
    return NoPool(
        f"no instance{wanted}; announced: {known}",
        hint="start one with `hexgen worker llm --instance NAME`",
    )
