"""However many names others invent, the number of series stays bounded, and counters never fall."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from hexgen_celery.core.estimates import Calibration
from hexgen_celery.metrics import catalogue
from hexgen_celery.metrics.bounded import OTHER, BoundedLabel
from hexgen_celery.metrics.catalogue import CATALOGUE, Kind
from hexgen_celery.metrics.cluster_collector import ClusterCollector
from hexgen_celery.metrics.process_metrics import Instruments
from hexgen_celery.overview.counts import ClusterCounts, TenantCounts
from hexgen_celery.settings import MetricsSettings, Settings, TenantSettings

NAMES = st.lists(st.text(max_size=12), max_size=60)


@given(values=NAMES, most=st.integers(1, 8))
def test_a_bounded_label_shows_few_values_and_keeps_to_them(values: list[str], most: int) -> None:
    label = BoundedLabel(most)
    first = {value: label(value) for value in values}
    assert len(set(first.values()) - {OTHER}) <= most
    assert all(shown in (value, OTHER) for value, shown in first.items())
    again = {value: label(value) for value in first if first[value] == value}
    assert all(value == shown for value, shown in again.items())


@given(values=NAMES)
def test_declared_values_keep_their_own_label_whatever_comes_first(values: list[str]) -> None:
    label = BoundedLabel(2, ["gold", "silver", "bronze"])
    for value in values:
        label(value)
    assert [label(name) for name in ("gold", "silver", "bronze")] == ["gold", "silver", "bronze"]


@settings(max_examples=30, deadline=None)
@given(values=st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=80))
def test_no_metric_of_a_process_grows_with_what_it_is_told(values: list[tuple[str, str]]) -> None:
    most = 4
    registry = CollectorRegistry()
    instruments = Instruments(registry, most)
    for stage, code in values:
        instruments.of(catalogue.ERRORS, stage, code).inc()
    series = [
        sample
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "hexgen_request_errors_total"
    ]
    assert len(series) <= (most + 1) ** 2
    assert sum(sample.value for sample in series) == len(values)


def _tenants(counted: dict[str, int]) -> tuple[TenantCounts, ...]:
    return tuple(
        TenantCounts(name, 1, {"": {"accepted": count}}) for name, count in counted.items()
    )


def _accepted(collector: ClusterCollector) -> dict[str, float]:
    return {
        sample.labels["tenant"]: sample.value
        for family in collector.collect()
        for sample in family.samples
        if sample.name == "hexgen_questions_total"
    }


@settings(max_examples=50, deadline=None)
@given(
    rounds=st.lists(
        st.dictionaries(st.text(max_size=6), st.integers(0, 50), max_size=30), max_size=6
    )
)
def test_tenants_beyond_the_limit_share_one_label_and_nothing_falls(
    rounds: list[dict[str, int]],
) -> None:
    known: dict[str, int] = {}

    def reads() -> Iterator[ClusterCounts]:
        for counted in rounds:
            for name, more in counted.items():
                known[name] = known.get(name, 0) + more
            yield ClusterCounts(0.0, (), (), (), tenants=_tenants(known))

    configured = Settings(
        metrics=MetricsSettings(enabled=True, tenants=3, cache_seconds=0),
        tenants=(TenantSettings(name="acme"),),
    )
    following = reads()
    collector = ClusterCollector(lambda: next(following), configured)
    before: dict[str, float] = {}
    for _ in rounds:
        now = _accepted(collector)
        assert len(now) <= 4
        assert sum(now.values()) == sum(known.values())
        assert all(now.get(tenant, 0) >= value for tenant, value in before.items())
        before = now


def test_many_threads_may_be_the_first_to_need_a_metric() -> None:
    threads = 16
    for _ in range(20):
        registry = CollectorRegistry()
        instruments = Instruments(registry)
        barrier = threading.Barrier(threads)

        def first_use(
            barrier: threading.Barrier = barrier, instruments: Instruments = instruments
        ) -> None:
            barrier.wait()
            instruments.of(catalogue.RETRIES, "evaluation").inc()

        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(first_use) for _ in range(threads)]:
                done.result()
        labels = {"stage": "evaluation"}
        assert registry.get_sample_value("hexgen_request_retries_total", labels) == threads


def test_every_histogram_has_buckets_and_every_name_is_once_there() -> None:
    names = [metric.name for metric in CATALOGUE]
    assert len(set(names)) == len(names)
    for metric in CATALOGUE:
        assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM), metric.name
        assert list(metric.buckets) == sorted(set(metric.buckets)), metric.name
        assert not metric.name.endswith("_total"), metric.name


def test_the_weight_in_force_is_told_by_scope() -> None:
    policies = {
        "@": '{"dispatch": "alpha", "parameters": {"alpha": 0.4}}',
        "acme@": '{"dispatch": "alpha", "parameters": {}}',
        "acme@m": '{"dispatch": "round-robin", "parameters": {}}',
        "odd@": "not JSON",
    }
    counts = ClusterCounts(0.0, (), (), (), policies=policies)
    collector = ClusterCollector(lambda: counts, Settings())
    alphas = {
        sample.labels["scope"]: sample.value
        for family in collector.collect()
        for sample in family.samples
        if sample.name == "hexgen_dispatch_alpha"
    }
    assert alphas == {"@": 0.4, "acme@": 0.2}


def test_figures_of_a_few_predictions_are_not_exported() -> None:
    known = {"few": Calibration(19, 30.24, 28.0, 0.1), "many": Calibration(20, 0.2, -0.1, 0.8)}
    registry = CollectorRegistry()
    counts = ClusterCounts(0.0, (), (), (), calibration=known)
    registry.register(ClusterCollector(lambda: counts, Settings()))
    for metric, figure in (("estimate_coverage", 0.8), ("estimate_bias_ratio", -0.1)):
        assert registry.get_sample_value(f"hexgen_{metric}", {"about": "many"}) == figure
        assert registry.get_sample_value(f"hexgen_{metric}", {"about": "few"}) is None
