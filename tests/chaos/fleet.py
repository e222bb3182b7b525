"""Worker processes of a chaos run: restarted whenever they end, each by its own process id."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.evidence import Fault
from tests.integration.transport.probe_app import LEDGER_VARIABLE

PROJECT = Path(__file__).resolve().parents[2]
QUEUES = ("gpu.a100.x", "sql", "hexgen.ask")
FAULT_PROBABILITY = 0.002
STOP_SECONDS = 30.0


@dataclass(slots=True)
class Worker:
    """One process; `ending` once it was told to end."""

    process: subprocess.Popen[bytes]
    ending: str = ""


@dataclass
class Fleet:
    """Keeps `size` workers alive and notes how each of them ended."""

    url: str
    directory: Path
    conf: dict[str, Any]
    size: int
    rng: random.Random
    faults: list[Fault] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    peaceful: bool = False
    _started: int = 0

    def tend(self) -> None:
        """Replace what has ended."""
        for worker in list(self.workers):
            status = worker.process.poll()
            if status is not None:
                self.workers.remove(worker)
                if not worker.ending:
                    kind = "fault-point" if status == -signal.SIGKILL else f"exit {status}"
                    self._note(kind, worker.process.pid)
        while len(self.workers) < self.size:
            self.workers.append(self._start())

    def end(self, kind: str, *signals: int) -> None:
        """Send `signals` to a random worker that is not ending yet."""
        chosen = [worker for worker in self.workers if not worker.ending]
        if not chosen:
            return
        worker = self.rng.choice(chosen)
        worker.ending = kind
        for number in signals:
            if worker.process.poll() is None:
                worker.process.send_signal(number)
                time.sleep(0.05)
        self._note(kind, worker.process.pid)

    def stop(self) -> None:
        """End everything, first by SIGTERM."""
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            try:
                worker.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
        self.workers.clear()

    def _note(self, kind: str, pid: int) -> None:
        now = time.time()
        # How long an ending process may still work is its own affair: until it is gone.
        until = now if kind in ("sigkill", "fault-point") else now + STOP_SECONDS
        self.faults.append(Fault(kind, now, until, pid))

    def _start(self) -> Worker:
        self._started += 1
        command = [sys.executable, "-m", "celery", "-A", "tests.chaos.chaos_tasks", "worker"]
        command += ["-n", f"c{self._started}@chaos", "-P", "custom", "-c", "4", "-l", "WARNING"]
        command += ["-Q", ",".join(QUEUES), "--without-gossip", "--without-mingle"]
        with (self.directory / "workers.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=PROJECT, env=self._environment(), stdout=log, stderr=log
            )
        return Worker(process)

    def _environment(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}
        points = () if self.peaceful else ("after-claim", "before-ack")
        return {
            **inherited,
            "CHAOS_URL": self.url,
            "CHAOS_CONF": json.dumps(self.conf),
            LEDGER_VARIABLE: str(self.directory / "ledger"),
            "CELERY_CUSTOM_WORKER_POOL": "hexgen_celery.transport.thread_pool:ThreadPool",
            "HEXGEN_FAULTS": ",".join(f"{point}={FAULT_PROBABILITY}" for point in points),
            "HEXGEN_FAULT_SEED": str(self.rng.random()),
            "PYTHONPATH": str(PROJECT),
        }
