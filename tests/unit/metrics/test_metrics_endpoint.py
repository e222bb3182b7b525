"""The HTTP endpoint: ports, paths, and what it says without Redis."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from prometheus_client import CollectorRegistry

from hexgen_celery.metrics import ProcessMetrics
from hexgen_celery.metrics.cluster_collector import ClusterCollector
from hexgen_celery.metrics.endpoint import Endpoint, advertised
from hexgen_celery.metrics.targets import scrape_targets
from hexgen_celery.overview.counts import ClusterCounts
from hexgen_celery.processes import ProcessRecord, settings_fingerprint
from hexgen_celery.settings import LogSettings, MetricsSettings, Settings

ANY_PORT = MetricsSettings(enabled=True, port=0)


def _get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    running = Endpoint(ANY_PORT, ProcessMetrics("llm", "llm-x@host").registry)
    running.start()
    yield running
    running.stop()


def test_an_endpoint_serves_metrics_and_its_health_again_and_again(endpoint: Endpoint) -> None:
    for _ in range(3):
        status, text = _get(endpoint.address, "/metrics")
        assert status == 200
        assert 'hexgen_process_info{kind="llm"' in text
        assert "process_cpu_seconds_total" in text
        assert _get(endpoint.address, "/healthz") == (200, '{"status": "ok"}\n')


def test_a_process_that_lost_what_it_works_with_is_not_healthy() -> None:
    running = Endpoint(ANY_PORT, CollectorRegistry(), healthy=lambda: False)
    running.start()
    try:
        assert _get(running.address, "/healthz") == (503, '{"status": "without Redis"}\n')
    finally:
        running.stop()


def test_what_an_endpoint_was_not_given_is_not_found(endpoint: Endpoint) -> None:
    assert _get(endpoint.address, "/targets")[0] == 404
    assert _get(endpoint.address, "/elsewhere")[0] == 404


def test_discovery_answers_503_while_redis_is_away() -> None:
    def targets() -> list[dict[str, Any]]:
        raise redis.ConnectionError("away")

    running = Endpoint(ANY_PORT, CollectorRegistry(), targets)
    running.start()
    try:
        status, text = _get(running.address, "/targets")
    finally:
        running.stop()
    assert status == 503
    assert "error" in json.loads(text)


def test_two_processes_on_a_host_take_neighbouring_ports() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        first = taken.getsockname()[1]
        settings = MetricsSettings(enabled=True, port=first, ports=20)
        running = Endpoint(settings, CollectorRegistry())
        running.start()
        try:
            port = int(running.address.rpartition(":")[2])
            assert first < port < first + 20
        finally:
            running.stop()


def test_without_a_free_port_the_process_goes_on_without_endpoint() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = MetricsSettings(enabled=True, port=taken.getsockname()[1], ports=1)
        running = Endpoint(settings, CollectorRegistry())
        running.start()
        assert running.address == ""
        running.stop()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (MetricsSettings(), "127.0.0.1"),
        (MetricsSettings(host="0.0.0.0"), socket.gethostname()),
        (MetricsSettings(host="0.0.0.0", advertise="gpu-7"), "gpu-7"),
        (MetricsSettings(host="::1"), "[::1]"),
    ],
)
def test_the_name_by_which_scrapers_reach_a_host(settings: MetricsSettings, name: str) -> None:
    assert advertised(settings) == name


def test_without_redis_a_scrape_says_that_and_nothing_stale() -> None:
    def away() -> ClusterCounts:
        raise redis.ConnectionError("away")

    collector = ClusterCollector(away, Settings())
    samples = {s.name: s.value for family in collector.collect() for s in family.samples}
    assert samples == {"hexgen_redis_up": 0.0}


def test_scrapes_within_the_cache_time_read_redis_once() -> None:
    reads, clock = [], [0.0]

    def read() -> ClusterCounts:
        reads.append(1)
        return ClusterCounts(0.0, (), (), ())

    collector = ClusterCollector(read, Settings(), lambda: clock[0])
    for _ in range(3):
        list(collector.collect())
    assert len(reads) == 1
    clock[0] = 1.5
    list(collector.collect())
    assert len(reads) == 2


def test_targets_name_kind_and_worker_and_leave_out_who_has_no_endpoint() -> None:
    seen = ProcessRecord("sql-1@a", "sql", "1", "f", "a:9464")
    silent = ProcessRecord("sql-2@b", "sql", "1", "f")
    labels = {"kind": "sql", "worker": "sql-1@a"}
    assert scrape_targets([seen, silent]) == [{"targets": ["a:9464"], "labels": labels}]


def test_the_fingerprint_is_that_of_what_all_processes_must_share() -> None:
    plain = Settings()
    other_log = plain.model_copy(update={"log": LogSettings(level="debug")})
    pipeline = plain.pipeline.model_copy(update={"candidates": 5})
    assert settings_fingerprint(plain) == settings_fingerprint(other_log)
    assert settings_fingerprint(plain) != settings_fingerprint(
        plain.model_copy(update={"pipeline": pipeline})
    )
