"""The live cluster as dispatch policies see it: announced instances with the ledger's load."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog

from hexgen_celery.core.profiles import Profile
from hexgen_celery.core.views import InstanceView
from hexgen_celery.errors import InvalidProfile
from hexgen_celery.instances import InstanceRecord
from hexgen_celery.ledger_gauge import LedgerGauge
from hexgen_celery.live_snapshot import Snapshot
from hexgen_celery.prefix_caches import CacheFactor, PrefixCaches
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.request_urgency import Work
from hexgen_celery.settings import InstanceSettings, PoolSettings, Settings
from hexgen_celery.workflows.definition import Submission
from hexgen_celery.workflows.routing_options import routing_options

log = structlog.get_logger(__name__)

MICROSECONDS = 1_000_000


def instance_record(
    settings: Settings, pool: PoolSettings, instance: InstanceSettings, worker: str = ""
) -> InstanceRecord:
    """The record that the worker of an instance announces."""
    emulated = instance.engine == "emulated"
    return InstanceRecord(
        name=instance.name,
        queue=pool.queue,
        gpu=pool.gpu,
        model=pool.model,
        profile=pool.profile,
        url=instance.url or "",
        worker=worker,
        concurrency=pool.concurrency,
        speed=settings.emulator.speed if emulated else 1.0,
        max_model_len=pool.max_model_len,
        tags=pool.tags,
    )


def scaled_profile(profile: Profile, speed: float) -> Profile:
    """`profile` with all its times divided by `speed`."""
    if speed == 1.0:
        return profile
    return replace(
        profile,
        prefill_tokens_per_second=profile.prefill_tokens_per_second * speed,
        prefill_quadratic=profile.prefill_quadratic / speed,
        prefill_base=profile.prefill_base / speed,
        decode_base=profile.decode_base / speed,
        decode_per_sequence=profile.decode_per_sequence / speed,
        decode_per_context_token=profile.decode_per_context_token / speed,
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request needs of an instance: model (empty: any) and tags."""

    model: str = ""
    tags: frozenset[str] = frozenset()

    def served_by(self, record: InstanceRecord) -> bool:
        """Whether such an instance can take it at all."""
        return self.model in ("", record.model) and (not self.tags or self.tags <= set(record.tags))


def wanted_by(submission: Submission) -> Wanted:
    """What all requests of a question need."""
    asked = routing_options(submission.options)
    return Wanted(model=asked.model, tags=frozenset(asked.tags))


def usable_records(
    announced: Iterable[InstanceRecord],
    *,
    now: float,
    dead_after_seconds: float,
    wanted: Wanted | None = None,
) -> list[InstanceRecord]:
    """Instances that a request may be sent to: alive, ready and able to serve it."""
    wanted = wanted or Wanted()
    return [
        record
        for record in announced
        if record.alive(now, dead_after_seconds) and wanted.served_by(record)
    ]


class Profiles:
    """Profiles by instance, each read once; one that cannot be read is tried again after
    `RETRY_SECONDS`. `now` gives seconds of any one clock."""

    RETRY_SECONDS = 30.0

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: dict[tuple[str, float], Profile] = {}
        self._unreadable: dict[str, tuple[str, float]] = {}

    def trouble(self, record: InstanceRecord) -> str:
        """Why its profile cannot be read here; empty where it can. Its worker may have another
        configuration or run on a host with other files, which must not end all routing."""
        if (record.profile, record.speed) in self._known:
            return ""
        why, until = self._unreadable.get(record.profile, ("", 0.0))
        if why and self._now() < until:
            return why
        try:
            self.of(record)
        except InvalidProfile as error:
            why = str(error)
            self._unreadable[record.profile] = (why, self._now() + self.RETRY_SECONDS)
            log.warning("an instance is not used", instance=record.name, error=why)
            return why
        self._unreadable.pop(record.profile, None)
        return ""

    def of(self, record: InstanceRecord) -> Profile:
        """The profile of an announced instance, at its speed.

        Raises:
            InvalidProfile: it cannot be read.
        """
        key = (record.profile, record.speed)
        profile = self._known.get(key)
        if profile is None:
            profile = self._known[key] = scaled_profile(load_profile(record.profile), record.speed)
        return profile


class _Unseen:
    """Requests placed by this router that the ledger may not show yet, and their sums."""

    __slots__ = ("_until", "microseconds", "output_tokens", "prefill_tokens")

    def __init__(self) -> None:
        self._until: deque[tuple[float, Work]] = deque()
        self.prefill_tokens = self.output_tokens = self.microseconds = 0

    def __len__(self) -> int:
        return len(self._until)

    def add(self, until: float, work: Work) -> None:
        """Count one until then (seconds)."""
        self._until.append((until, work))
        self._count(work, 1)

    def drop(self, now: float) -> None:
        """Leave out those whose time is over."""
        while self._until and self._until[0][0] <= now:
            self._count(self._until.popleft()[1], -1)

    def _count(self, work: Work, sign: int) -> None:
        self.prefill_tokens += sign * work.prefill_tokens
        self.output_tokens += sign * work.output_tokens
        self.microseconds += sign * (work.prefill_us + work.decode_us)


class _Seat:
    """What does not change about an instance from one heartbeat to the next, worked out once."""

    __slots__ = ("own", "profile", "record", "running")

    def __init__(self, record: InstanceRecord, profile: Profile) -> None:
        self.record = record
        self.profile = profile
        self.running = LedgerGauge(f"instance/{record.name}")
        self.own = LedgerGauge(record.own_queue)


class LiveCluster:
    """Turns snapshots into views. Not thread-safe: one decision at a time.

    What waits in a pool's own queue is shared equally by its usable instances. Requests that this
    router placed within the last `UNSEEN_SECONDS` are added, since they are confirmed together.
    """

    UNSEEN_SECONDS = 0.02
    # Instances that are not announced (any more): those that register themselves may have ever new
    # names, while one that is restarted comes back under its own.
    REMEMBERED = 100

    def __init__(self, profiles: Profiles, caches: PrefixCaches) -> None:
        self._profiles = profiles
        self._caches = caches
        self._seats: dict[str, _Seat] = {}
        self._pools: dict[str, LedgerGauge] = {}
        self._followed: Sequence[InstanceRecord] = ()
        self._unseen: defaultdict[str, _Unseen] = defaultdict(_Unseen)
        self._assigned: defaultdict[str, float] = defaultdict(float)

    def follow(self, records: Sequence[InstanceRecord]) -> None:
        """These are all announced instances, of which those without a readable profile are left
        out; costs nothing while they are the very same records."""
        if records is self._followed:
            return
        readable = [record for record in records if not self._profiles.trouble(record)]
        self._seats |= {record.name: self._seat(record) for record in readable}
        if len(self._seats) > len(records) + self.REMEMBERED:
            self._forget(self._seats.keys() - {record.name for record in records})
        self._followed = records

    def _forget(self, names: Iterable[str]) -> None:
        for name in list(names):
            del self._seats[name]
            self._assigned.pop(name, None)
            self._caches.forget(name)

    def _seat(self, record: InstanceRecord) -> _Seat:
        seat = self._seats.get(record.name)
        if seat is None or seat.record is not record:
            seat = self._seats[record.name] = _Seat(record, self._profiles.of(record))
            self._caches.follow(record.name, seat.profile, record.epoch)
        return seat

    def views(
        self, records: Sequence[InstanceRecord], snapshot: Snapshot, factor: CacheFactor
    ) -> list[InstanceView]:
        """The views of `records`, in their order."""
        load, sizes = snapshot.load, Counter(record.queue for record in records)
        pools = {queue: self._shared(queue, load, size) for queue, size in sizes.items()}
        return [
            self._view(self._seat(record), snapshot, pools[record.queue], factor)
            for record in records
        ]

    def placed(self, view: InstanceView, now: float, work: Work) -> None:
        """A request of so much work was placed just now."""
        self._assigned[view.instance] += work.seconds
        self._unseen[view.instance].add(now + self.UNSEEN_SECONDS, work)

    def _view(
        self, seat: _Seat, snapshot: Snapshot, shared: Shared, factor: CacheFactor
    ) -> InstanceView:
        record, load = seat.record, snapshot.load
        name = record.name
        _, running, prefill, output, context, _, _ = seat.running.read(load)
        waiting, _, own_prefill, own_output, _, prefill_us, decode_us = seat.own.read(load)
        view = InstanceView(
            name,
            record.queue,
            record.gpu,
            seat.profile,
            running=running,
            waiting=waiting + shared.waiting,
            outstanding_prefill_tokens=prefill + own_prefill + shared.prefill_tokens,
            outstanding_output_tokens=output + own_output + shared.output_tokens,
            running_output_tokens=output,
            waiting_exec_seconds=(prefill_us + decode_us + shared.microseconds) / MICROSECONDS,
            kv_used_tokens=context + output,
            running_context_tokens=context,
            assigned_seconds=self._assigned[name],
            cached_tokens=self._caches.lookup(name, factor(name)),
        )
        if name in self._unseen:
            self._add_unseen(view, snapshot.now)
        return view

    def _add_unseen(self, view: InstanceView, now: float) -> None:
        unseen = self._unseen[view.instance]
        unseen.drop(now)
        if not unseen:
            del self._unseen[view.instance]
            return
        view.waiting += len(unseen)
        view.outstanding_prefill_tokens += unseen.prefill_tokens
        view.outstanding_output_tokens += unseen.output_tokens
        view.waiting_exec_seconds += unseen.microseconds / MICROSECONDS

    def _shared(self, queue: str, load: Mapping[str, str], size: int) -> Shared:
        gauge = self._pools.get(queue)
        if gauge is None:
            gauge = self._pools[queue] = LedgerGauge(queue)
        waiting, _, prefill, output, _, prefill_us, decode_us = gauge.read(load)
        return Shared(
            round(waiting / size), prefill / size, output / size, (prefill_us + decode_us) / size
        )


class Shared(NamedTuple):
    """One instance's share of what waits in its pool's own queue."""

    waiting: int
    prefill_tokens: float
    output_tokens: float
    microseconds: float
