"""The cluster's figures for a scrape: read from Redis when asked, and kept for a moment.

An endpoint that nobody scrapes costs nothing.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import redis
import structlog
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from hexgen_celery.core.defaults import DEFAULTS
from hexgen_celery.errors import HexgenError
from hexgen_celery.instances import InstanceState
from hexgen_celery.live_cluster import Profiles
from hexgen_celery.metrics import catalogue
from hexgen_celery.metrics.bounded import BoundedLabel
from hexgen_celery.metrics.catalogue import Kind, Metric
from hexgen_celery.overview.counts import ClusterCounts, InstanceCounts, TenantCounts
from hexgen_celery.policies import PolicyChoice
from hexgen_celery.settings import Settings

log = structlog.get_logger(__name__)

MOST_INSTANCES = 500
MOST_POOLS = 100
MOST_CLASSES = 50
MOST_SCOPES = 50
ALPHA_POLICY = "alpha"

Sample = tuple[tuple[str, ...], float]


class ClusterCollector(Collector):
    """Yields the cluster's metrics; without Redis only that it is away."""

    def __init__(
        self,
        read: Callable[[], ClusterCounts],
        settings: Settings,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._settings = settings
        self._now = now
        self._lock = threading.Lock()
        self._kept: ClusterCounts | None = None
        self._kept_until = 0.0
        self._profiles = Profiles()
        declared = [tenant.name for tenant in settings.tenants]
        self._tenants = BoundedLabel(settings.metrics.tenants, declared)
        self._classes = BoundedLabel(MOST_CLASSES, [""])
        self._scopes = BoundedLabel(MOST_SCOPES, ["@"])

    def collect(self) -> Iterator[Family]:
        """All families, from figures no older than `metrics.cache_seconds`."""
        counts = self._counts()
        yield _family(catalogue.REDIS_UP, [((), float(counts is not None))])
        if counts is not None:
            yield from self._families(counts)

    def describe(self) -> Iterable[Family]:
        """No promise, so that registering asks nobody."""
        return []

    def _counts(self) -> ClusterCounts | None:
        with self._lock:
            if self._kept is not None and self._now() < self._kept_until:
                return self._kept
            try:
                self._kept = self._read()
            except redis.RedisError as error:
                log.warning("Redis cannot be reached", error=str(error))
                self._kept = None
            self._kept_until = self._now() + self._settings.metrics.cache_seconds
            return self._kept

    def _families(self, counts: ClusterCounts) -> Iterator[Family]:
        yield from _queue_families(counts)
        yield from self._instance_families(counts.instances[:MOST_INSTANCES])
        yield from self._question_families(counts)
        yield from _housekeeping_families(counts)
        yield _family(catalogue.ALPHA, self._alphas(counts.policies))
        yield from _estimate_families(counts)
        kinds = Counter(each.kind for each in counts.processes if each.endpoint)
        yield _family(catalogue.PROCESSES, [((kind,), n) for kind, n in kinds.items()])

    def _instance_families(self, instances: Iterable[InstanceCounts]) -> Iterator[Family]:
        named = [((each.record.queue, each.record.name), each) for each in instances]
        states = [
            ((*labels, str(state)), float(each.state is state))
            for labels, each in named
            for state in InstanceState
        ]
        yield _family(catalogue.INSTANCE_STATE, states)
        yield _family(catalogue.INSTANCE_RUNNING, [(labels, i.running) for labels, i in named])
        yield _family(catalogue.INSTANCE_WAITING, [(labels, i.waiting) for labels, i in named])
        beats = [(labels, each.beat_age_seconds) for labels, each in named]
        yield _family(catalogue.INSTANCE_BEAT, beats)
        ratios = [(labels, self.kv_ratio(each)) for labels, each in named]
        known = [(labels, ratio) for labels, ratio in ratios if ratio is not None]
        yield _family(catalogue.INSTANCE_KV, known)

    def kv_ratio(self, instance: InstanceCounts) -> float | None:
        """Estimated tokens of what runs over the KV memory of its profile; None without one."""
        try:
            return instance.kv_tokens / self._profiles.of(instance.record).kv_tokens
        except HexgenError:
            return None

    def _question_families(self, counts: ClusterCounts) -> Iterator[Family]:
        yield _family(catalogue.RUNNING, [((), counts.questions_running)])
        yield _family(catalogue.UNACCEPTED, [((), counts.submissions_waiting)])
        in_flight: Counter[tuple[str, ...]] = Counter()
        ended: Counter[tuple[str, ...]] = Counter()
        for tenant in sorted(counts.tenants, key=_accepted, reverse=True):
            label = self._tenants(tenant.tenant)
            in_flight[label,] += tenant.in_flight
            for slo_class, measures in tenant.classes.items():
                for measure, count in measures.items():
                    ended[label, self._classes(slo_class), measure] += count
        yield _family(catalogue.IN_FLIGHT, in_flight.items())
        yield _family(catalogue.QUESTIONS, ended.items())

    def _alphas(self, policies: Mapping[str, str]) -> list[Sample]:
        router = self._settings.router
        alphas = {"@": _alpha(PolicyChoice(router.dispatch, router.parameters))}
        for scope in sorted(policies):
            try:
                alphas[self._scopes(scope)] = _alpha(PolicyChoice.from_json(policies[scope]))
            except ValueError:
                continue
        return [((scope,), alpha) for scope, alpha in alphas.items() if alpha is not None]


def _alpha(choice: PolicyChoice) -> float | None:
    """The weight of a policy, None where it has none."""
    default = DEFAULTS.alpha if choice.dispatch == ALPHA_POLICY else None
    value: Any = choice.parameters.get("alpha", default)
    return float(value) if isinstance(value, int | float) else None


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        family.add_metric(list(labels), value)
    return family


def _queue_families(counts: ClusterCounts) -> Iterator[Family]:
    pools = counts.pools[:MOST_POOLS]
    yield _family(catalogue.QUEUE_WAITING, [((pool.name,), pool.waiting) for pool in pools])
    yield _family(catalogue.QUEUE_LATE, [((pool.name,), pool.late) for pool in pools])
    yield _family(catalogue.QUEUE_WORK, [((pool.name,), pool.work_seconds) for pool in pools])


def _housekeeping_families(counts: ClusterCounts) -> Iterator[Family]:
    yield _family(catalogue.OUTBOX, [((), counts.outbox.entries)])
    yield _family(catalogue.OUTBOX_UNSENT, [((), counts.outbox.unsent)])
    yield _family(catalogue.OUTBOX_OVERDUE, [((), counts.outbox.overdue_seconds)])
    yield _family(catalogue.LEASES_OVERDUE, [((), counts.leases_overdue)])
    yield _family(catalogue.DEAD_LETTERS, [((), counts.dead_letters)])
    yield _family(catalogue.RECORDER_WAITING, [((), counts.store.waiting)])
    yield _family(catalogue.RECORDER_LAG, [((), counts.store.oldest_seconds)])
    yield _family(catalogue.RECORDER_DROPPED, [((), counts.store.dropped)])
    yield _family(catalogue.RECORDER_ASIDE, [((), counts.store.aside)])
    yield _family(catalogue.EVENTS, [((), counts.events)])
    if counts.timers_age_seconds is not None:
        yield _family(catalogue.TIMERS_AGE, [((), max(0.0, counts.timers_age_seconds))])


def _estimate_families(counts: ClusterCounts) -> Iterator[Family]:
    known = [(about, each) for about, each in counts.calibration.items() if each.telling]
    yield _family(catalogue.COVERAGE, [((about,), each.coverage) for about, each in known])
    yield _family(catalogue.BIAS, [((about,), each.bias) for about, each in known])


def _accepted(tenant: TenantCounts) -> int:
    return sum(measures.get("accepted", 0) for measures in tenant.classes.values())
