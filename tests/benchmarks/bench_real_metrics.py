"""What metrics cost: throughput with them on and scraped, against off.

Two clusters stand side by side and are loaded in turn, on–off–off–on, so that whatever else the
machine does meets both alike. Endpoints are scraped every `SCRAPE_SECONDS`, twice as often as the
shipped configuration does.
"""

from __future__ import annotations

import contextlib
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.bench_cluster import BenchCluster, bench_cluster
from tests.benchmarks.bench_e2e_throughput import SHAPE, requests_per_second, trace_payload
from tests.benchmarks.rows import Row, measured

PAIRS = 8
QUESTIONS = 100
WARM_UP = 20
SCRAPE_SECONDS = 5.0
BAR_PERCENT = 3.0
ON = "[metrics]\nenabled = true\nport = 0\n"


def run() -> list[Row]:
    """The loss of throughput, and the processor time per request, which other programs on the
    machine disturb less; medians over pairs of runs."""
    with bench_cluster(0.0) as without, bench_cluster(0.0, extra=ON) as observed:
        for cluster in (without, observed):
            _rate(cluster, WARM_UP)
        with scraped(observed) as scrapes:
            costs = [_cost_percent(without, observed, pair) for pair in range(PAIRS)]
    notes: dict[str, Any] = {"scrapes": len(scrapes), "bytes_per_scrape": max(scrapes, default=0)}
    lost = [throughput for throughput, _ in costs]
    spent = [processor for _, processor in costs]
    return [
        measured("real.metrics_throughput_cost_percent", lost, "%", bar=BAR_PERCENT, **notes),
        measured("real.metrics_processor_cost_percent", spent, "%", **notes),
    ]


def _cost_percent(without: BenchCluster, observed: BenchCluster, pair: int) -> tuple[float, float]:
    """By how much the observed one is slower, and takes more; which goes first alternates."""
    order = (without, observed) if pair % 2 else (observed, without)
    measures = {id(cluster): _rate(cluster, QUESTIONS) for cluster in order}
    (rate_off, used_off), (rate_on, used_on) = measures[id(without)], measures[id(observed)]
    return 100.0 * (rate_off - rate_on) / rate_off, 100.0 * (used_on - used_off) / used_off


def _rate(cluster: BenchCluster, questions: int) -> tuple[float, float]:
    """Requests per second, and processor seconds meanwhile."""
    before = cluster.processor_seconds()
    rate = requests_per_second(cluster, questions, trace_payload, len(SHAPE))
    return rate, cluster.processor_seconds() - before


@contextlib.contextmanager
def scraped(cluster: BenchCluster) -> Iterator[list[int]]:
    """Scrape every endpoint of the cluster meanwhile; gives the sizes of the answers."""
    sizes: list[int] = []
    stop = threading.Event()
    addresses = [each.endpoint for each in cluster.client.processes() if each.endpoint]
    if not addresses:
        raise RuntimeError("the cluster announces no endpoints")

    def scrape() -> None:
        while not stop.wait(SCRAPE_SECONDS):
            for address in addresses:
                with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
                    sizes.append(len(answer.read()))

    thread = threading.Thread(target=scrape, name="scraper", daemon=True)
    thread.start()
    try:
        yield sizes
    finally:
        stop.set()
        thread.join()
