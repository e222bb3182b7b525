"""Long runs of the whole stack, each kept in a file as soon as it is done.

A run takes minutes, and a comparison takes many: one that was interrupted goes on where it was.
Delete `build/live` to measure anew.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hexgen_celery.profiles_io import load_fleet
from hexgen_celery.simulator import Policies, SimulationConfig
from hexgen_celery.workloads import Workload, read_workload
from tests.benchmarks.agreement import population_of, without_expiry
from tests.benchmarks.rows import BenchmarkSkipped
from tests.benchmarks.stack_cluster import Played, emulated_cluster

PROJECT = Path(__file__).parents[2]
DATA = Path(os.environ.get("HEXGEN_DATA", PROJECT / ".." / "shared" / "data"))
KEPT = PROJECT / "build" / "live"
# How many runs may still be made; those beyond are left for the next time.
NEW_RUNS = int(os.environ.get("HEXGEN_LIVE_NEW_RUNS", "1000"))


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
        with emulated_cluster(fleet, policies, self.speed) as cluster:
            played = cluster.play(population_of(self.config))
        record = {"commit": _commit(), "played": dataclasses.asdict(played)}
        KEPT.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(record), encoding="utf-8")


def shared_workload(name: str) -> Workload:
    """One of the shared workloads.

    Raises:
        BenchmarkSkipped: the shared data is absent.
    """
    path = DATA / "workloads" / f"{name}.jsonl"
    if not path.is_file():
        raise BenchmarkSkipped(f"the shared data is absent at {DATA}")
    return read_workload(path)


def protocol_config(
    workload: str, fleet: str, rate: float, policies: Policies, **lengths: Any
) -> SimulationConfig:
    """A run after the protocol, with deadlines that nobody misses; `lengths` are its fields."""
    config = SimulationConfig(
        shared_workload(workload), load_fleet(fleet), rate, policies=policies, **lengths
    )
    return without_expiry(config)


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
