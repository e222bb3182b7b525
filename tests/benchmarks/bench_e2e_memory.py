"""Memory: of an LLM worker with 64 requests in flight, and of Redis per waiting question."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hexgen_celery.demo import build_demo
from hexgen_celery.keys import Keys
from tests.benchmarks.bench_cluster import BenchCluster, bench_cluster
from tests.benchmarks.load import chat_payload, question_payload, submit_at_rate, watching_ends
from tests.benchmarks.rows import Row, measured

IN_FLIGHT = 64
CHATS = 1280
CHATS_PER_SECOND = 1000.0
WAITING = 400
REPEATS = 3
FOREVER_SECONDS = 3600.0
PATIENCE_SECONDS = 120.0


def run() -> list[Row]:
    """Rows for both."""
    return [_worker_memory(), _redis_memory()]


def _worker_memory() -> Row:
    """Resident memory while a server of constant 700 ms keeps every slot busy."""
    samples: list[float] = []
    with bench_cluster(0.7, concurrency=IN_FLIGHT) as cluster, watching_ends(cluster.redis) as ends:
        submit_at_rate(cluster, CHATS_PER_SECOND, CHATS, chat_payload)
        while not ends.wait_for(CHATS, 1.0) and len(samples) < PATIENCE_SECONDS:
            samples += cluster.resident_mib("workers.llm")
    return measured(
        "e2e.llm_worker_resident_mib_with_64_in_flight", samples, "MiB", bar=250, peak=max(samples)
    )


def _redis_memory() -> Row:
    """Growth of Redis' used memory per text-to-SQL question whose first request is queued."""
    with (
        tempfile.TemporaryDirectory(prefix="hexgen-demo-") as directory,
        bench_cluster(FOREVER_SECONDS, concurrency=1) as cluster,
    ):
        demo = build_demo(Path(directory))
        cluster.client.add_database(demo.database)
        questions = [question_payload(each, 3600.0) for each in demo.questions]
        payloads = iter(questions * (1 + (REPEATS + 1) * WAITING // len(questions)))
        _growth(cluster, 10, payloads.__next__)
        grown = [_growth(cluster, WAITING, payloads.__next__) for _ in range(REPEATS)]
    return measured(
        "e2e.redis_kb_per_waiting_question", grown, "kB", bar=20, waiting=WAITING * REPEATS
    )


def _growth(cluster: BenchCluster, count: int, payload: Callable[[], dict[str, object]]) -> float:
    """Kilobytes (1000 bytes) that each of `count` more waiting questions takes."""
    before, waiting = _used_bytes(cluster), _running_questions(cluster)
    submit_at_rate(cluster, 200.0, count, payload)
    until = time.monotonic() + PATIENCE_SECONDS
    while _running_questions(cluster) < waiting + count:
        if time.monotonic() > until:
            raise RuntimeError("the questions were not accepted")
        time.sleep(0.1)
    time.sleep(2.0)
    return (_used_bytes(cluster) - before) / count / 1000


def _used_bytes(cluster: BenchCluster) -> int:
    return int(cluster.redis.info("memory")["used_memory"])


def _running_questions(cluster: BenchCluster) -> int:
    keys = Keys(cluster.settings.broker.prefix)
    return int(cluster.redis.zcard(keys.deadlines))
