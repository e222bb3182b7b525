"""What real Celery workers make of the queues: how soon they start, in which order, after a death.

Times are taken by the tasks themselves, in a file of their own.
"""

from __future__ import annotations

import bisect
import itertools
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.rows import Row, measured
from tests.integration.transport.probe import Line, Probe, wait_for
from workers.embedded_redis import EmbeddedRedis

STARTS, ROUNDS, START_BAR_MS = 300, 3, 10.0
TASKS, WORKERS = 10_000, (1, 4)
PATIENCE = 600.0
LEASE_SECONDS, LEASE_SLACK_SECONDS, SHUTDOWN_BAR_SECONDS = 15.0, 2.0, 1.0
DEATHS = 3


def run() -> list[Row]:
    """Start delay, order, recovery after SIGKILL and after a clean shutdown."""
    return [_starts(), *(_order(workers) for workers in WORKERS), *_deaths()]


@contextmanager
def _probe(**conf: object) -> Iterator[Probe]:
    options = {"lease_seconds": LEASE_SECONDS, "max_connections": 100, "body_encoding": "utf-8"}
    with (
        tempfile.TemporaryDirectory(prefix="hexgen-bench-") as directory,
        EmbeddedRedis(Path(directory) / "redis") as server,
        Probe(server.url, Path(directory), broker_transport_options=options, **conf) as probe,
    ):
        yield probe


def _starts() -> Row:
    """Put on an idle queue to start in a worker that waits; the median of some rounds."""
    delays = [_round_of_starts(seed) for seed in range(ROUNDS)]
    return measured(
        "queue.start_delay_p99_ms",
        [statistics.quantiles(each, n=100)[98] for each in delays],
        "ms",
        bar=START_BAR_MS,
        tasks=STARTS,
        median_ms=statistics.median(delay for each in delays for delay in each),
        worst_ms=max(delay for each in delays for delay in each),
    )


def _round_of_starts(seed: int) -> list[float]:
    """Milliseconds from putting to starting, task by task."""
    rng = random.Random(seed)
    with _probe() as probe:
        probe.worker(pool="threads")
        # The first of all opens the client's connection.
        probe.send("first")
        probe.wait_ended(1)
        sent: dict[str, float] = {}
        for number in range(STARTS):
            time.sleep(0.02 + rng.random() * 0.08)
            sent[f"t{number}"] = time.time()
            probe.send(f"t{number}", key=0.0)
        probe.wait_ended(1 + STARTS, PATIENCE)
        starts = [line for line in probe.lines("start") if line.name in sent]
        return [(line.at - sent[line.name]) * 1e3 for line in starts]


def _order(workers: int) -> Row:
    """How many tasks of random rank started although a more urgent one was still waiting."""
    keys = random.Random(2).sample(range(10 * TASKS), TASKS)
    with _probe() as probe:
        for key in keys:
            probe.send(str(key), key=float(key))
        for number in range(workers):
            probe.worker(f"w{number}", ready=False)
        probe.wait_ended(TASKS, PATIENCE)
        lines = probe.lines()
    started = [int(line.name) for line in lines if line.event == "start"]
    return measured(
        f"queue.inversions_beyond_those_in_flight_{workers}w",
        [overtaken(lines)],
        "tasks",
        bar=0.0,
        tasks=TASKS,
        neighbours_out_of_order=sum(a > b for a, b in itertools.pairwise(started)),
    )


def overtaken(lines: list[Line]) -> int:
    """Tasks that waited while a less urgent one started.

    Names are ranks, and a worker takes one task at a time: it took a task after the end of its
    last one. So what started before that end was taken while the task still waited.
    """
    last_end: dict[int, float] = {}
    started_at: list[float] = []
    greatest: list[int] = []
    count = 0
    for line in sorted(lines, key=lambda line: line.at):
        if line.event == "end":
            last_end[line.pid] = line.at
            continue
        rank = int(line.name)
        before = bisect.bisect_left(started_at, last_end.get(line.pid, 0.0))
        count += before > 0 and greatest[before - 1] > rank
        started_at.append(line.at)
        greatest.append(max(rank, greatest[-1]) if greatest else rank)
    return count


def _deaths() -> list[Row]:
    killed = [_recovery(signal.SIGKILL) for _ in range(DEATHS)]
    ended = [_recovery(signal.SIGQUIT) for _ in range(DEATHS)]
    return [
        measured(
            "queue.recovery_after_sigkill_seconds",
            killed,
            "s",
            bar=LEASE_SECONDS + LEASE_SLACK_SECONDS,
        ),
        measured("queue.recovery_after_shutdown_seconds", ended, "s", bar=SHUTDOWN_BAR_SECONDS),
    ]


def _recovery(how: signal.Signals) -> float:
    """Seconds until what a worker held runs in another one."""
    with _probe() as probe:
        probe.send("held", 120.0)
        probe.worker("w1", pool="custom")
        probe.wait_started(1)
        probe.worker("w2", pool="custom")
        ended_at = time.time()
        probe.workers["w1"].send_signal(how)
        again: Line = wait_for(lambda: probe.lines("redelivered"), PATIENCE)[0]
        return again.at - ended_at
