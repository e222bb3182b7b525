"""The demo as a newcomer runs it in an environment that is set up: how long it takes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.rows import Row, measured

REPEATS = 3
TIMEOUT_SECONDS = 300
TAIL_CHARS = 2000
READY = re.compile(r"cluster ready after ([0-9.]+) s")


def run() -> list[Row]:
    """Rows for the whole program (start and stop of the cluster included) and the first answer."""
    runs = [_demo() for _ in range(REPEATS)]
    notes: dict[str, Any] = {
        name: runs[-1][2][name] for name in ("questions", "answered", "attainment")
    }
    return [
        measured("e2e.demo_seconds", [whole for whole, _, _ in runs], "s", **notes),
        measured("e2e.demo_first_answer_seconds", [first for _, first, _ in runs], "s"),
    ]


def _demo() -> tuple[float, float, dict[str, Any]]:
    """Seconds in all, seconds from the command to the first answer, and the demo's own report."""
    with tempfile.TemporaryDirectory(prefix="hexgen-demo-") as directory:
        started = time.perf_counter()
        done = subprocess.run(
            [str(Path(sys.executable).with_name("hexgen")), "demo", "--json"],
            env={**os.environ, "HEXGEN_UP__DIRECTORY": directory},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        whole = time.perf_counter() - started
    ready = READY.search(done.stderr)
    if done.returncode or ready is None:
        raise RuntimeError(f"the demo failed ({done.returncode}): {done.stderr[-TAIL_CHARS:]}")
    report = json.loads(done.stdout.strip().splitlines()[-1])
    return whole, float(ready[1]) + float(report["first_answer_seconds"]), report
