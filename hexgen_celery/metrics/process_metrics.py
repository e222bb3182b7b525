"""What happened in this process, as Prometheus metrics in a registry of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from hexgen_celery.coordination.timers import TickReport
from hexgen_celery.metrics import catalogue
from hexgen_celery.metrics.bounded import BoundedLabel
from hexgen_celery.metrics.catalogue import Kind, Metric
from hexgen_celery.metrics.observer import Observer
from hexgen_celery.references import ClaimedRequest
from hexgen_celery.transport import process
from hexgen_celery.workflows.definition import Json

MOST_VALUES = 50
"""Values of one label in one process: stages, error codes and the like."""

_TOKENS = {"input": "input_tokens", "output": "output_tokens", "cached": "cached_tokens"}
_TICKS = {
    "expired": "expired",
    "lease_lost": "lost",
    "resent": "resent",
    "delivered": "delivered",
}


class Instruments:
    """The catalogue's metrics in one registry, each made at its first use.

    Every label value passes through a bound of its label's name.
    """

    def __init__(self, registry: CollectorRegistry, most_values: int = MOST_VALUES) -> None:
        self._registry = registry
        self._most_values = most_values
        self._making = threading.Lock()
        self._made: dict[str, Any] = {}
        self._labels: dict[str, BoundedLabel] = {}

    def of(self, metric: Metric, *values: str) -> Any:
        """The instrument of `metric` with label `values` in the order of its labels."""
        made = self._made.get(metric.name) or self._make_once(metric)
        if not values:
            return made
        bounded = (
            self._labels[name](value) for name, value in zip(metric.labels, values, strict=True)
        )
        return made.labels(*bounded)

    def _make_once(self, metric: Metric) -> Any:
        """Many threads may be the first to need it."""
        with self._making:
            for name in metric.labels:
                self._labels.setdefault(name, BoundedLabel(self._most_values))
            if metric.name not in self._made:
                self._made[metric.name] = self._make(metric)
            return self._made[metric.name]

    def _make(self, metric: Metric) -> Counter | Gauge | Histogram:
        common = (metric.name, metric.help, metric.labels)
        if metric.kind is Kind.HISTOGRAM:
            return Histogram(*common, registry=self._registry, buckets=metric.buckets)
        if metric.kind is Kind.COUNTER:
            return Counter(*common, registry=self._registry)
        return Gauge(*common, registry=self._registry)


class ProcessMetrics(Observer):
    """The `Observer` of a process whose metrics are on. `kind` is its kind of worker.

    `laxity_known`: whether requests are ranked by their latest start, so that their rank tells it.
    """

    def __init__(
        self,
        kind: str,
        worker: str,
        *,
        laxity_known: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.registry = CollectorRegistry()
        self._now = now
        self._laxity_known = laxity_known
        self._of = Instruments(self.registry).of
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self.registry.register(SweepCollector())
        self._of(catalogue.PROCESS, kind, worker, version("hexgen-celery")).set(1)

    def claimed(self, request: ClaimedRequest, pool: str) -> None:
        """See `Observer`."""
        stage = request.spec.stage
        if request.latest_start is not None and self._laxity_known:
            self._of(catalogue.LAXITY, pool).observe(request.latest_start - self._now())
        if request.waited_seconds is not None:
            self._of(catalogue.WAIT, stage, pool).observe(request.waited_seconds)
        if request.ref.attempt > 1:
            self._of(catalogue.RETRIES, stage).inc()

    def ended(
        self, request: ClaimedRequest, pool: str, instance: str, verdict: str, seconds: float
    ) -> None:
        """See `Observer`."""
        stage = request.spec.stage
        self._of(catalogue.ENDED, stage, pool, verdict).inc()
        self._of(catalogue.DURATION, stage, instance).observe(seconds)

    def failed(self, stage: str, code: str) -> None:
        """See `Observer`."""
        self._of(catalogue.ERRORS, stage, code).inc()

    def completed(self, stage: str, instance: str, result: Json) -> None:
        """See `Observer`."""
        if "first_token_seconds" in result:
            first = float(result["first_token_seconds"])
            self._of(catalogue.FIRST_TOKEN, stage, instance).observe(first)
            for kind, name in _TOKENS.items():
                self._of(catalogue.TOKENS, instance, kind).inc(_amount(result.get(name)))
        elif "status" in result:
            self._of(catalogue.SQL, str(result["status"])).inc()

    def refused(self, code: str) -> None:
        """See `Observer`."""
        self._of(catalogue.REFUSED, code).inc()

    def ticked(self, report: TickReport) -> None:
        """See `Observer`."""
        if report.idle:
            return
        for action, name in _TICKS.items():
            self._of(catalogue.TIMERS, action).inc(getattr(report, name))

    def predicted(self, about: str, predicted: float, true: float, *, inside: bool) -> None:
        """See `Observer`."""
        if true > 0:
            self._of(catalogue.PREDICTION, about).observe(predicted / true)
        self._of(catalogue.COVERED, about, str(inside).lower()).inc()

    def recorded(self, rows: int) -> None:
        """See `Observer`."""
        self._of(catalogue.RECORDED).inc(rows)


class SweepCollector(Collector):
    """Leases swept by this process' lease keepers, which count for themselves."""

    def collect(self) -> Iterator[Family]:
        """The counter."""
        metric = catalogue.SWEPT
        family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        swept = process.swept()
        for outcome in ("put_back", "buried", "extended"):
            family.add_metric([outcome], getattr(swept, outcome))
        yield family

    def describe(self) -> Iterable[Family]:
        """What `collect` yields, without asking anybody."""
        metric = catalogue.SWEPT
        return [CounterMetricFamily(metric.name, metric.help, labels=metric.labels)]


def _amount(value: object) -> float:
    """Servers may leave a count out, or worse."""
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0
