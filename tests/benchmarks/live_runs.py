"""Long runs of the whole stack, each kept in a file as soon as it is done.

A run takes minutes, and a comparison takes many: one that was interrupted goes on where it was.
Delete `build/live` to measure anew.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hexgen_celery.profiles_io import load_fleet
from hexgen_celery.simulator import Policies, SimulationConfig, capacity
from hexgen_celery.workloads import Workload, read_workload
from tests.benchmarks.agreement import population_of, without_expiry
from tests.benchmarks.rows import BenchmarkSkipped
from tests.benchmarks.stack_cluster import Played, emulated_cluster

PROJECT = Path(__file__).parents[2]
DATA = Path(os.environ.get("HEXGEN_DATA", PROJECT / ".." / "shared" / "data"))
KEPT = PROJECT / "build" / "live"
FLEET, WORKLOAD, DATABASES = "het-70b", "trace2", 11
SEEDS = range(int(os.environ.get("HEXGEN_LIVE_SEEDS", "3")))
HIGH_LOAD = 0.9
# So fast that the cluster carries nearly 30 % of the LLM requests that it can on two cores.
HIGH_LOAD_SPEED = 5.0
# How many runs may still be made; those beyond are left for the next time.
NEW_RUNS = int(os.environ.get("HEXGEN_LIVE_NEW_RUNS", "1000"))


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many questions warm a run up, are measured, and keep the load up until those are done."""

    warmup: int
    questions: int
    cooldown: int = 0


HIGH_LOAD_LENGTHS = Lengths(100, int(os.environ.get("HEXGEN_LIVE_QUESTIONS", "300")), 30)


@dataclass(frozen=True, slots=True)
class LiveRun:
    """One run of the stack: what arrives, under which policies, how many times real time.

    `label` names the policies in files and rows.
    """

    label: str
    config: SimulationConfig
    speed: float

    @property
    def path(self) -> Path:
        """Where its outcome is kept."""
        config = self.config
        length = f"{config.warmup}-{config.questions}-{config.cooldown}"
        name = f"{self.label}_{config.rate:.3f}_{length}_{self.speed:g}_{config.seed}.json"
        return KEPT / name

    def played(self) -> Played:
        """The outcome: the one kept, else of a run made now.

        Raises:
            BenchmarkSkipped: as many runs as allowed have been made.
        """
        if not self.path.is_file():
            self._play()
        kept = json.loads(self.path.read_text(encoding="utf-8"))["played"]
        kept["latencies"] = {int(number): value for number, value in kept["latencies"].items()}
        return Played(**kept)

    @property
    def commit(self) -> str:
        """The version of the project with which the outcome that is kept was measured."""
        return str(json.loads(self.path.read_text(encoding="utf-8"))["commit"])

    def _play(self) -> None:
        global NEW_RUNS
        if NEW_RUNS <= 0:
            raise BenchmarkSkipped(f"{self.path.name} is still to be run")
        NEW_RUNS -= 1
        fleet, policies = self.config.fleet, self.config.policies
        with emulated_cluster(
            fleet, policies, self.speed, engine_priority=self.config.engine_priority
        ) as cluster:
            played = cluster.play(population_of(self.config))
        record = {"commit": _commit(), "played": dataclasses.asdict(played)}
        KEPT.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(record), encoding="utf-8")


def made(runs: Iterable[LiveRun]) -> list[LiveRun]:
    """Those of `runs` that are kept, or were made now; rows say how many that are."""
    found: list[LiveRun] = []
    for one in runs:
        with contextlib.suppress(BenchmarkSkipped):
            one.played()
            found.append(one)
    return found


def shared_workload(name: str) -> Workload:
    """One of the shared workloads.

    Raises:
        BenchmarkSkipped: the shared data is absent.
    """
    path = DATA / "workloads" / f"{name}.jsonl"
    if not path.is_file():
        raise BenchmarkSkipped(f"the shared data is absent at {DATA}")
    return read_workload(path)


@cache
def protocol_capacity() -> float:
    """The rate (1/s) that the protocol's yardstick policies can bear on the protocol's cluster."""
    return capacity(shared_workload(WORKLOAD), load_fleet(FLEET), DATABASES)


def protocol_config(
    policies: Policies, load: float, lengths: Lengths, seed: int
) -> SimulationConfig:
    """A run after the protocol at a share of the capacity, with deadlines that nobody misses."""
    config = SimulationConfig(
        shared_workload(WORKLOAD),
        load_fleet(FLEET),
        load * protocol_capacity(),
        policies=policies,
        databases=DATABASES,
        seed=seed,
        **dataclasses.asdict(lengths),
    )
    return without_expiry(config)


def high_load_run(label: str, policies: Policies, seed: int) -> LiveRun:
    """A run at `HIGH_LOAD`, which several benchmarks read."""
    config = protocol_config(policies, HIGH_LOAD, HIGH_LOAD_LENGTHS, seed)
    return LiveRun(label, config, HIGH_LOAD_SPEED)


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
