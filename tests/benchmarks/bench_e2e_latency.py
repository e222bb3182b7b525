"""What the whole path adds to one LLM request, over an asyncio client that asks the server itself.

A chat question is one LLM request: sent with Celery, accepted, stored, routed, queued, claimed,
streamed over HTTP, completed, its result stored and published. Both clients are open loops against
the same server of constant 500 ms, one after the other, in pairs.
"""

from __future__ import annotations

import asyncio
import statistics

from tests.benchmarks.bench_cluster import BenchCluster, bench_cluster
from tests.benchmarks.load import direct_latencies, whole_path_latencies
from tests.benchmarks.rows import Row, measured

SERVER_SECONDS = 0.5
REPEATS = 3
LOADS = ((1.0, 20, 15.0), (64.0, 640, 30.0))
"""Requests per second, requests, bar in milliseconds."""


def run() -> list[Row]:
    """One row per rate: mean of the path minus mean of the direct client, in milliseconds."""
    with bench_cluster(SERVER_SECONDS) as cluster:
        whole_path_latencies(cluster, 16.0, 64)
        return [_added(cluster, rate, count, bar) for rate, count, bar in LOADS]


def _added(cluster: BenchCluster, rate: float, count: int, bar: float) -> Row:
    pairs = [_pair(cluster, rate, count) for _ in range(REPEATS)]
    added = [(statistics.mean(path) - statistics.mean(direct)) * 1e3 for direct, path in pairs]
    tails = [_p95(path) * 1e3 - statistics.mean(direct) * 1e3 for direct, path in pairs]
    return measured(
        f"e2e.added_latency_ms_at_{rate:g}_per_second",
        added,
        "ms",
        bar=bar,
        requests=count,
        added_p95_ms=statistics.median(tails),
    )


def _pair(cluster: BenchCluster, rate: float, count: int) -> tuple[list[float], list[float]]:
    direct = asyncio.run(direct_latencies(cluster.server_urls[0], rate, count))
    return direct, whole_path_latencies(cluster, rate, count)


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]
