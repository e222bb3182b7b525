"""Worker processes of the probe application, and what their ledger says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import redis
from celery import Celery

from hexgen_celery.keys import Keys
from hexgen_celery.transport.inspection import QueueInspector
from hexgen_celery.transport.messages import HEADER, Urgency
from tests.integration.transport import probe_app

PROJECT = Path(__file__).resolve().parents[3]
ROOT = Keys().queue_root
START_SECONDS, STOP_SECONDS = 40.0, 30.0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the ledger."""

    event: str
    name: str
    pid: int
    at: float


def wait_for(condition: Callable[[], Any], seconds: float = 20.0, what: str = "") -> Any:
    """Wait until `condition` is true; fails loudly when it never is."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, f"waited {seconds:g} s in vain {what}"
        time.sleep(0.02)
    return value


class Probe:
    """Starts worker processes and stops each by its own process id."""

    def __init__(self, url: str, directory: Path, **conf: Any) -> None:
        self.url = url
        self.directory = directory
        self.conf = conf
        self.ledger = directory / "ledger"
        self.client: Celery = probe_app.build_app(url, **conf)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for name, process in self.workers.items():
            if process.poll() is None:
                process.kill()
                process.wait()
            if error is not None:
                sys.stderr.write(f"--- {name}\n{self.log(name)[-4000:]}\n")
        self.client.close()

    def worker(
        self,
        name: str = "w1",
        *,
        queues: str = "sql",
        concurrency: int = 1,
        pool: str = "threads",
        ready: bool = True,
        environment: dict[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a worker, by default waiting until it answers."""
        command = [sys.executable, "-m", "celery", "-A", probe_app.__name__, "worker"]
        command += ["-n", f"{name}@probe", "-P", pool, "-c", str(concurrency), "-Q", queues]
        command += ["-l", "INFO", "--without-gossip", "--without-mingle"]
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env={**os.environ, **self._environment(), **(environment or {})},
                stdout=log,
                stderr=log,
            )
        self.workers[name] = process
        if ready:
            self.wait_ready(name)
        return process

    def wait_ready(self, name: str) -> None:
        wait_for(lambda: f"{name}@probe ready" in self.log(name), START_SECONDS, self.log(name))

    def send(
        self,
        name: str,
        seconds: float = 0.0,
        *,
        key: float | None = None,
        queue: str | None = None,
        task: str = "probe.run",
        args: tuple[Any, ...] | None = None,
        **options: Any,
    ) -> str:
        """Send one task, with urgency `key` where there is one; returns its id."""
        headers = {} if key is None else {HEADER: Urgency(key).to_header()}
        sent = self.client.send_task(
            task,
            args=args if args is not None else (name, seconds),
            queue=queue,
            headers=headers,
            **options,
        )
        return str(sent.id)

    def lines(self, *events: str) -> list[Line]:
        """The ledger, of some events only if any are named."""
        if not self.ledger.exists():
            return []
        rows = (row.split() for row in self.ledger.read_text().splitlines())
        lines = [Line(event, name, int(pid), float(at)) for event, name, pid, at in rows]
        return [line for line in lines if not events or line.event in events]

    def names(self, *events: str) -> list[str]:
        return [line.name for line in self.lines(*events)]

    def runs(self) -> Counter[str]:
        """How often each task was started."""
        return Counter(self.names("start", "redelivered"))

    def wait_ended(self, count: int, seconds: float = 20.0) -> None:
        """Wait until so many different tasks have ended."""
        wait_for(
            lambda: len(set(self.names("end"))) >= count,
            seconds,
            f"for {count} tasks; ended: {len(set(self.names('end')))}",
        )

    def wait_started(self, count: int, seconds: float = 20.0) -> None:
        wait_for(lambda: len(self.lines("start", "redelivered")) >= count, seconds)

    def log(self, name: str) -> str:
        path = self.directory / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def stop(self, name: str = "w1", how: int = signal.SIGTERM) -> float:
        """Signal a worker and wait for its end; how many seconds that took."""
        started = time.monotonic()
        self.workers[name].send_signal(how)
        self.workers[name].wait(STOP_SECONDS)
        return time.monotonic() - started

    def kill(self, name: str = "w1") -> None:
        self.workers[name].kill()
        self.workers[name].wait()

    def _environment(self) -> dict[str, str]:
        return {
            probe_app.URL_VARIABLE: self.url,
            probe_app.LEDGER_VARIABLE: str(self.ledger),
            probe_app.OPTIONS_VARIABLE: json.dumps(self.conf),
            "CELERY_CUSTOM_WORKER_POOL": "hexgen_celery.transport.thread_pool:ThreadPool",
            "PYTHONPATH": str(PROJECT),
        }


class Broker:
    """What the broker holds, for assertions."""

    def __init__(self, client: redis.Redis, root: str = ROOT) -> None:
        self.client = client
        self.root = root
        self.inspector = QueueInspector(client, root)

    def waiting(self, queue: str = "sql") -> int:
        return self.inspector.lengths([queue])[0].waiting

    def held(self) -> int:
        return int(self.client.zcard(f"{self.root}:leases"))

    def load(self) -> dict[str, int]:
        values = cast("dict[bytes, bytes]", self.client.hgetall(f"{self.root}:load"))
        return {name.decode(): int(value) for name, value in values.items()}

    def is_empty(self) -> bool:
        """Whether no message is left anywhere of ours, nor a count of one."""
        kinds = ("messages", "leases", "holders", "deliveries", "passed", "load", "dead")
        return not self.client.exists(*(f"{self.root}:{kind}" for kind in kinds))
