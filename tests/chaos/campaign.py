"""One chaos run: tasks go in on three queues while workers, server and connections are hit.

`python -m tests.chaos.campaign --kills 200 --tasks 20000 --transport both` is `make chaos`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from celery import Celery
from kombu.exceptions import OperationalError

from hexgen_celery.keys import Keys
from hexgen_celery.transport.messages import HEADER, Urgency
from tests.chaos.evidence import Fault, Verdict, judge, runs_of
from tests.chaos.fleet import QUEUES, Fleet
from tests.integration.transport.probe_app import URGENCY, build_app
from workers.embedded_redis import EmbeddedRedis

ROOT = Keys().queue_root
LEFT_BEHIND = ("messages", "leases", "holders", "deliveries", "passed", "load", "dead")


@dataclass(frozen=True, slots=True)
class Plan:
    """How hard and how long. Seconds; `kills` counts ended worker processes."""

    kills: int = 20
    tasks: int = 1000
    seed: int = 1
    transport: str = "urgency"
    workers: int = 3
    pause: float = 0.7
    lease: float = 2.0
    patience: float = 120.0
    appendfsync: str = "everysec"

    @property
    def conf(self) -> dict[str, Any]:
        """Celery settings of workers and client."""
        options: dict[str, Any] = {"max_connections": 100, "socket_timeout": 10.0}
        if self.transport == "urgency":
            options |= {"lease_seconds": self.lease, "max_deliveries": 1000}
            return {"broker_transport": URGENCY, "broker_transport_options": options}
        # As quick to recover as Kombu can be told to be.
        options |= {
            "visibility_timeout": self.lease,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
        }
        return {"broker_transport": None, "broker_transport_options": options}


@dataclass
class Client:
    """Sends the tasks, each until the broker has it; `hexgen.ask` with stock Kombu."""

    plan: Plan
    url: str
    submitted: list[str] = field(default_factory=list)
    doubtful: list[Fault] = field(default_factory=list)

    def send_all(self, pace: Callable[[int], None]) -> None:
        """Send `plan.tasks` tasks; `pace` is called before each."""
        rng = random.Random(self.plan.seed)
        ours = build_app(self.url, **self.plan.conf)
        stock = Celery("stock", broker=self.url, backend=None, set_as_current=False)
        stock.conf.broker_transport_options = {"socket_timeout": 10.0}
        for number in range(self.plan.tasks):
            pace(number)
            name, queue = f"t{number}", rng.choice(QUEUES)
            app = stock if queue == "hexgen.ask" else ours
            urgency = Urgency(time.time() + rng.random() * 10, since=time.time())
            self._send(app, name, queue, rng.random() * 0.04, urgency)
            self.submitted.append(name)

    def _send(self, app: Celery, name: str, queue: str, seconds: float, urgency: Urgency) -> None:
        headers = {} if queue == "hexgen.ask" else {HEADER: urgency.to_header()}
        while True:
            try:
                app.send_task(
                    "chaos.work",
                    args=(name, seconds),
                    task_id=name,
                    queue=queue,
                    headers=headers,
                    retry=False,
                )
                return
            except (OperationalError, OSError, redis.RedisError):
                # It may have arrived all the same, so that it may be there twice.
                self.doubtful.append(Fault("doubtful send", time.time(), time.time()))
                time.sleep(0.1)


class Chaos:
    """Does something bad from time to time, by seed."""

    def __init__(self, plan: Plan, server: EmbeddedRedis, fleet: Fleet) -> None:
        self._plan = plan
        self._server = server
        self._fleet = fleet
        self._rng = random.Random(plan.seed + 1)
        self._deeds: list[tuple[float, Callable[[], None]]] = [
            (8, lambda: fleet.end("sigkill", signal.SIGKILL)),
            (3, lambda: fleet.end("sigterm", signal.SIGTERM)),
            (2, lambda: fleet.end("sigterm-twice", signal.SIGTERM, signal.SIGTERM)),
            (2, lambda: fleet.end("sigquit", signal.SIGTERM, signal.SIGQUIT)),
            (1, lambda: self._restart("restart")),
            (1, lambda: self._restart("crash")),
            (1, self._pause),
            (2, self._cut),
        ]

    def strike(self) -> None:
        """One bad deed."""
        weights = [weight for weight, _ in self._deeds]
        (deed,) = self._rng.choices([deed for _, deed in self._deeds], weights)
        deed()

    @property
    def ended(self) -> int:
        """Processes ended so far."""
        return judge([], [], self._fleet.faults, {}, self._plan.lease).kills

    def _restart(self, kind: str) -> None:
        began = time.time()
        self._server.restart(crash=kind == "crash")
        self._fleet.faults.append(Fault(kind, began, time.time()))

    def _pause(self) -> None:
        """Longer than a lease."""
        assert self._server.pid is not None
        began = time.time()
        os.kill(self._server.pid, signal.SIGSTOP)
        time.sleep(1.5 * self._plan.lease)
        os.kill(self._server.pid, signal.SIGCONT)
        self._fleet.faults.append(Fault("pause", began, time.time()))

    def _cut(self) -> None:
        began = time.time()
        with redis.Redis.from_url(self._server.url) as client:
            client.client_kill_filter(_type="normal", skipme=True)
            client.client_kill_filter(_type="pubsub", skipme=True)
        self._fleet.faults.append(Fault("cut", began, time.time()))


def run(plan: Plan, directory: Path) -> Verdict:
    """Run `plan` in an empty `directory` and judge it."""
    with EmbeddedRedis(directory / "redis", appendfsync=plan.appendfsync) as server:
        fleet = Fleet(server.url, directory, plan.conf, plan.workers, random.Random(plan.seed + 2))
        client = Client(plan, server.url)
        try:
            _play(plan, server, fleet, client)
            _wait_for_the_rest(plan, directory, fleet, client)
            fleet.stop()
            left = _leftovers(plan, server)
        finally:
            fleet.stop()
    runs = runs_of(_ledger(directory))
    return judge(client.submitted, runs, [*fleet.faults, *client.doubtful], left, plan.lease)


def _play(plan: Plan, server: EmbeddedRedis, fleet: Fleet, client: Client) -> None:
    """Send and strike until both the tasks and the kills are used up."""
    chaos = Chaos(plan, server, fleet)
    sender = threading.Thread(
        target=client.send_all,
        # The tasks last as long as the kills do.
        args=(lambda number: _hold(lambda: number > plan.tasks * _share(chaos, plan)),),
        daemon=True,
    )
    fleet.tend()
    sender.start()
    while chaos.ended < plan.kills or sender.is_alive():
        time.sleep(plan.pause)
        fleet.tend()
        if chaos.ended < plan.kills:
            chaos.strike()
    fleet.peaceful = True


def _share(chaos: Chaos, plan: Plan) -> float:
    return (chaos.ended + 1) / max(1, plan.kills)


def _hold(condition: Callable[[], bool]) -> None:
    while condition():
        time.sleep(0.02)


def _wait_for_the_rest(plan: Plan, directory: Path, fleet: Fleet, client: Client) -> None:
    """Nothing bad happens any more; wait until all has ended, or nothing does for long."""
    until = time.monotonic() + plan.patience
    left = set(client.submitted)
    while left and time.monotonic() < until:
        fleet.tend()
        time.sleep(0.3)
        done = {task for event, task, _, _ in _ledger(directory) if event == "end"}
        if done & left:
            until = max(until, time.monotonic() + plan.patience / 4)
        left -= done
    # A message handed back a moment ago may still run once more.
    time.sleep(2 * plan.lease)
    while _in_queues(plan, fleet.url) and time.monotonic() < until:
        fleet.tend()
        time.sleep(0.3)


def _ledger(directory: Path) -> list[tuple[str, str, int, float]]:
    path = directory / "ledger"
    rows = (row.split() for row in path.read_text().splitlines()) if path.exists() else iter(())
    return [(row[0], row[1], int(row[2]), float(row[3])) for row in rows if len(row) == 4]


def _in_queues(plan: Plan, url: str) -> int:
    with redis.Redis.from_url(url) as client:
        if plan.transport == "urgency":
            return int(client.exists(f"{ROOT}:messages")) + int(client.llen("hexgen.ask"))
        return sum(int(client.llen(queue)) for queue in QUEUES) + int(client.hlen("unacked"))


def _leftovers(plan: Plan, server: EmbeddedRedis) -> dict[str, int]:
    with redis.Redis.from_url(server.url) as client:
        left = {queue: int(client.llen(queue)) for queue in QUEUES}
        if plan.transport == "urgency":
            left |= {kind: int(client.exists(f"{ROOT}:{kind}")) for kind in LEFT_BEHIND}
        else:
            left["unacked"] = int(client.hlen("unacked"))
    return left


def main(arguments: list[str] | None = None) -> int:
    """Run one campaign per transport and print the verdicts; 1 when ours is not clean."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--transport", choices=("urgency", "kombu", "both"), default="both")
    options = parser.parse_args(arguments)
    chosen = ("urgency", "kombu") if options.transport == "both" else (options.transport,)
    failed = False
    for transport in chosen:
        plan = Plan(options.kills, options.tasks, options.seed, transport)
        with tempfile.TemporaryDirectory(prefix="hexgen-chaos-") as directory:
            began = time.monotonic()
            verdict = run(plan, Path(directory))
        report = {
            "transport": transport,
            "seed": plan.seed,
            "appendfsync": plan.appendfsync,
            "seconds": round(time.monotonic() - began),
            "lost_tasks": list(verdict.lost)[:20],
            "unexplained": list(verdict.unexplained)[:20],
        }
        print(f"{transport}: {verdict.summary()}\n{json.dumps(report)}", flush=True)
        failed |= transport == "urgency" and not verdict.clean
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
