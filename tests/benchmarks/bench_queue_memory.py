"""Redis memory per waiting message, ours beside stock Kombu's, a million messages of one stage."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import cast

import redis

from tests.benchmarks.queue_load import TRANSPORTS, fill
from tests.benchmarks.rows import Row, measured
from workers.embedded_redis import EmbeddedRedis

MESSAGES = 1_000_000
BAR = 1.3


def run() -> list[Row]:
    """The ratio of bytes per message."""
    with (
        tempfile.TemporaryDirectory(prefix="hexgen-bench-") as directory,
        EmbeddedRedis(Path(directory)) as server,
    ):
        spent = {transport: _bytes_per_message(server, transport) for transport in TRANSPORTS}
    return [
        measured(
            "queue.memory_ratio_at_1000000",
            [spent["urgency"] / spent["kombu"]],
            "×",
            bar=BAR,
            our_bytes=round(spent["urgency"]),
            stock_bytes=round(spent["kombu"]),
        )
    ]


def _bytes_per_message(server: EmbeddedRedis, transport: str) -> float:
    with redis.Redis.from_url(server.url, socket_timeout=60) as client:
        client.config_set("appendonly", "no")
        client.flushall()
        before = _used(client)
        fill(server.url, transport, MESSAGES)
        return (_used(client) - before) / MESSAGES


def _used(client: redis.Redis) -> int:
    return int(cast("dict[str, int]", client.info("memory"))["used_memory"])
