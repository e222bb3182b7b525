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
    """One row: the median over pairs of runs."""
    with bench_cluster(0.0) as without, bench_cluster(0.0, extra=ON) as observed:
        for cluster in (without, observed):
            _rate(cluster, WARM_UP)
        with scraped(observed) as scrapes:
            costs = [_cost_percent(without, observed, pair) for pair in range(PAIRS)]
    return [
        measured(
            "real.metrics_throughput_cost_percent",
            costs,
            "%",
            bar=BAR_PERCENT,
            scrapes=len(scrapes),
            bytes_per_scrape=max(scrapes, default=0),
        )
    ]


def _cost_percent(without: BenchCluster, observed: BenchCluster, pair: int) -> float:
    """By how much the observed one is slower; which goes first alternates."""
    order = (without, observed) if pair % 2 else (observed, without)
    rates = {id(cluster): _rate(cluster, QUESTIONS) for cluster in order}
    off, on = rates[id(without)], rates[id(observed)]
    return 100.0 * (off - on) / off


def _rate(cluster: BenchCluster, questions: int) -> float:
    return requests_per_second(cluster, questions, trace_payload, len(SHAPE))


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
