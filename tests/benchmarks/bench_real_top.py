"""What `hexgen top` costs: processor time over 30 s on a terminal, while the cluster is busy."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.benchmarks.bench_cluster import BenchCluster, bench_cluster
from tests.benchmarks.load import chat_payload, submit_at_rate
from tests.benchmarks.rows import Row, measured

SERVERS = 4
SERVER_SECONDS = 2.0
CONCURRENCY = 16
CHATS_PER_SECOND = 45.0
SETTLE_SECONDS = 5.0
WATCHED_SECONDS = 30.0
REPEATS = 3
BAR_PERCENT = 5.0
LINES, COLUMNS = "50", "160"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def run() -> list[Row]:
    """One row: percent of one core, its start left out."""
    seconds = REPEATS * (SETTLE_SECONDS + WATCHED_SECONDS) + SETTLE_SECONDS
    with bench_cluster(SERVER_SECONDS, servers=SERVERS, concurrency=CONCURRENCY) as cluster:
        load = threading.Thread(
            target=submit_at_rate,
            args=(cluster, CHATS_PER_SECOND, round(CHATS_PER_SECOND * seconds), chat_payload),
            daemon=True,
        )
        load.start()
        shares = [_core_percent(cluster) for _ in range(REPEATS)]
        waiting = sum(pool.waiting for pool in cluster.client.counts().pools)
        load.join()
    return [measured("real.top_core_percent", shares, "%", bar=BAR_PERCENT, waiting=waiting)]


def _core_percent(cluster: BenchCluster) -> float:
    """The share of one core that a top of its own takes once it shows its picture."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "from hexgen_celery.cli import main; main(['top'])"],
        env={
            **os.environ,
            "HEXGEN_BROKER__URL": cluster.settings.broker.url.get_secret_value(),
            "TERM": "xterm-256color",
            "LINES": LINES,
            "COLUMNS": COLUMNS,
        },
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    try:
        drawn = _read_for(controller, SETTLE_SECONDS)
        if b"questions running" not in drawn:
            raise RuntimeError(f"hexgen top shows nothing: {drawn[-500:]!r}")
        before = _processor_seconds(process.pid)
        began = time.perf_counter()
        _read_for(controller, WATCHED_SECONDS)
        used = _processor_seconds(process.pid) - before
        return 100.0 * used / (time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait()
        os.close(controller)


def _read_for(descriptor: int, seconds: float) -> bytes:
    """What is drawn meanwhile; a terminal that nobody reads would stop the program."""
    seen, until = b"", time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left)[0]:
            seen += os.read(descriptor, 65536)
    return seen


def _processor_seconds(pid: int) -> float:
    """User and system time of a process (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
