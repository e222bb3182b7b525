"""Whether anything of a question stays in Redis once its time to live is over."""

from __future__ import annotations

import time
import uuid
from typing import Any

from hexgen_celery.keys import Keys
from tests.benchmarks.bench_cluster import BenchCluster, bench_cluster
from tests.benchmarks.bench_e2e_throughput import trace_payload
from tests.benchmarks.load import ASK, chat_payload, watching_ends
from tests.benchmarks.rows import Row, measured

TTL_SECONDS = 4.0
GRACE_SECONDS = 4.0
QUESTIONS = 60
PATIENCE_SECONDS = 60.0
SHORT_LIVES = f"[broker]\nresult_ttl_seconds = {TTL_SECONDS}\n"


def run() -> list[Row]:
    """Keys, and entries of the deployment's own keys, that outlive answered and cancelled ones."""
    with bench_cluster(0.05, extra=SHORT_LIVES) as cluster:
        _questions(cluster, 2)
        before = _keys(cluster)
        _questions(cluster, QUESTIONS)
        new = sorted(_keys(cluster) - before)
        entries = _entries(cluster)
    left = len(new) + sum(entries.values())
    notes: dict[str, Any] = {"keys": [key.decode() for key in new], "entries": entries}
    return [measured("e2e.keys_left_after_ttl", [left], "keys", bar=0, **notes)]


def _questions(cluster: BenchCluster, count: int) -> None:
    """Chats, staged questions and cancelled ones, `count` of each, to their end and beyond."""
    with watching_ends(cluster.redis) as ends:
        for _ in range(count):
            for payload in (chat_payload(), trace_payload()):
                _send(cluster, payload)
            cluster.client.app.control.revoke(_send(cluster, trace_payload()))
        ends.wait_for(3 * count, PATIENCE_SECONDS)
        time.sleep(TTL_SECONDS + GRACE_SECONDS)


def _send(cluster: BenchCluster, payload: dict[str, Any]) -> str:
    name = str(uuid.uuid4())
    cluster.client.app.send_task(ASK, kwargs=payload, task_id=name)
    return name


def _keys(cluster: BenchCluster) -> set[bytes]:
    return set(cluster.redis.scan_iter(count=1000))


def _entries(cluster: BenchCluster) -> dict[str, int]:
    """What is left in the keys that all questions share, by key; those with nothing are left out.

    The stream of events is left out: it is capped by its length, not by time.
    """
    keys = Keys(cluster.settings.broker.prefix)
    counts = {
        keys.deadlines: cluster.redis.zcard(keys.deadlines),
        keys.running: cluster.redis.zcard(keys.running),
        keys.outbox: cluster.redis.zcard(keys.outbox),
        "unacked": cluster.redis.hlen("unacked"),
    }
    return {name: int(count) for name, count in counts.items() if count}
