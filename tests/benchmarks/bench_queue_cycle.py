"""Put, claim and acknowledge a stage message over Kombu: our transport beside stock Kombu.

Both on the same Redis in the same run, in turn, five times. Ratios are stock time over ours, so
that more than one is faster than stock.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import redis

from tests.benchmarks.queue_load import TRANSPORTS, Seconds, fill, in_processes
from tests.benchmarks.rows import Row, measured
from workers.embedded_redis import EmbeddedRedis

CYCLES = 1000
REPEATS = 5
PROCESSES = (1, 4)
DEPTHS = (0, 1_000, 100_000)
CYCLE_BAR, PUT_BAR = 1.15, 0.8
# Going from 1,000 to 100,000 waiting messages, a logarithm grows by this factor.
LOGARITHMIC = 5 / 3

Pair = dict[str, Seconds]


def run() -> list[Row]:
    """One row per ratio, and one for the growth with depth."""
    with (
        tempfile.TemporaryDirectory(prefix="hexgen-bench-") as directory,
        EmbeddedRedis(Path(directory)) as server,
    ):
        pairs = {
            (depth, processes): found
            for depth in DEPTHS
            for processes, found in _at_depth(server, depth).items()
        }
    rows = [row for key, found in pairs.items() for row in _ratios(*key, found)]
    return [*rows, *(_growth(pairs, processes) for processes in PROCESSES)]


def _at_depth(server: EmbeddedRedis, depth: int) -> dict[int, list[Pair]]:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    for transport in TRANSPORTS:
        fill(server.url, transport, depth)
    return {processes: _pairs(server, processes) for processes in PROCESSES}


def _pairs(server: EmbeddedRedis, processes: int) -> list[Pair]:
    return [
        {name: in_processes(server.url, name, CYCLES, processes) for name in TRANSPORTS}
        for _ in range(REPEATS)
    ]


def _ratios(depth: int, processes: int, pairs: list[Pair]) -> list[Row]:
    place = f"{processes}p_depth_{depth}"

    def ratios(part: Callable[[Seconds], float]) -> list[float]:
        return [part(pair["kombu"]) / part(pair["urgency"]) for pair in pairs]

    ours = [pair["urgency"].cycle / CYCLES * 1e6 for pair in pairs]
    stock = [pair["kombu"].cycle / CYCLES * 1e6 for pair in pairs]
    facts = {
        "our_cycle_us": round(statistics.median(ours)),
        "stock_cycle_us": round(statistics.median(stock)),
    }
    return [
        measured(
            f"queue.cycle_ratio_{place}",
            ratios(lambda seconds: seconds.cycle),
            "×",
            bar=CYCLE_BAR,
            better="higher",
            **facts,
        ),
        measured(
            f"queue.put_ratio_{place}",
            ratios(lambda seconds: seconds.put),
            "×",
            bar=PUT_BAR,
            better="higher",
        ),
    ]


def _growth(pairs: dict[tuple[int, int], list[Pair]], processes: int) -> Row:
    shallow = pairs[DEPTHS[1], processes]
    deep = pairs[DEPTHS[2], processes]
    return measured(
        f"queue.cycle_growth_{processes}p_depth_1000_to_100000",
        [b["urgency"].cycle / a["urgency"].cycle for a, b in zip(shallow, deep, strict=True)],
        "×",
        bar=LOGARITHMIC,
    )
