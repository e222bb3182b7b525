"""Whole-system chaos: questions in flight on a real cluster while each kind of process is killed.

`python -m tests.chaos.system --rounds 3 --questions 300` is the long form. The cluster is what
`hexgen up` starts: emulated servers, control, sql and LLM workers, tuner, recorder, embedded Redis;
the store is a PostgreSQL of its own, or SQLite where there are no server programs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import psutil
import redis
from pydantic import SecretStr

from hexgen_celery.api import Client, NoAnswer, Outcome, Pending, Question
from hexgen_celery.cli.cluster_file import emulated_cluster
from hexgen_celery.cli.local_cluster import LocalCluster
from hexgen_celery.cluster import ClusterState
from hexgen_celery.demo.build import DemoFiles, build_demo
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings, load_settings
from hexgen_celery.store.engine import open_store
from hexgen_celery.store.reading import StoreReader
from hexgen_celery.store.schema import migrate
from hexgen_celery.store.stream import RecordStream
from tests.integration.store.postgres import PostgresServer, binaries

PROGRAMS = {
    "control": "workers.control",
    "llm": "workers.llm",
    "sql": "workers.sql",
    "recorder": "workers.recorder",
    "tuner": "workers.tuner",
    "instance": "workers.emulator",
    "redis": "redis-server",
}
POSTGRES = "postgres"
FAULTS = "after-claim=0.002,after-transition=0.002,before-send=0.002,before-ack=0.002"
RECORDER_FAULTS = ",after-record=0.1"
READY_SECONDS, AWAY_SECONDS = 90.0, 2.0
SETTLE_SECONDS, POLL_SECONDS = 60.0, 0.25


@dataclass(frozen=True, slots=True)
class Plan:
    """How many questions, how often each kind is killed, with which seed. Times in seconds."""

    questions: int = 100
    rounds: int = 1
    seed: int = 1
    pause: float = 1.5
    slo: float = 240.0
    speed: float = 2.0
    faults: str = FAULTS + RECORDER_FAULTS


@dataclass(slots=True)
class Evidence:
    """What the run showed: `causes` of questions without an answer; `wrong` says in words what must
    not be."""

    outcomes: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    in_flight_at_kills: list[int] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def expect(self, holds: bool, otherwise: str) -> None:
        """Note `otherwise` unless it holds."""
        if not holds:
            self.wrong.append(otherwise)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "outcomes": dict(self.outcomes),
            "kills": dict(self.kills),
            "in_flight_at_kills": self.in_flight_at_kills,
            "causes": self.causes,
            "wrong": self.wrong,
            "seconds": round(self.seconds, 1),
        }


@dataclass(frozen=True, slots=True)
class World:
    """A running cluster with its store. `restart_store` is None for a file."""

    client: Client
    state: ClusterState
    settings: Settings
    files: DemoFiles
    restart_store: Callable[[], None] | None

    def kinds(self) -> list[str]:
        """What can be killed, in turn."""
        return [*PROGRAMS, POSTGRES] if self.restart_store else list(PROGRAMS)

    def kill(self, kind: str, rng: random.Random) -> bool:
        """Kill one process of that kind; False when none runs now."""
        if kind == POSTGRES and self.restart_store is not None:
            self.restart_store()
            return True
        running = [each for each in _descendants(self.state.pid) if _runs(each, PROGRAMS[kind])]
        if not running:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(rng.choice(running).pid, signal.SIGKILL)
        return True


@contextlib.contextmanager
def world(home: Path, plan: Plan) -> Iterator[World]:
    """The cluster of `plan` in `home`, ready."""
    files = build_demo(home / "data")
    config = home / "cluster.toml"
    text = emulated_cluster(home, replay=[files.replay], speed=plan.speed)
    config.write_text(text, encoding="utf-8")
    with _store(home) as (url, restart):
        settings = _settings(config, url)
        engine = open_store(settings, writing=True)
        migrate(engine)
        engine.dispose()
        cluster = LocalCluster(config, home)
        cluster.start(_environment(url, plan))
        try:
            state = cluster.wait_ready(READY_SECONDS)
            with Client(settings) as client:
                client.add_database(files.database)
                yield World(client, state, settings, files, restart)
        finally:
            cluster.stop()


def run(plan: Plan, home: Path) -> Evidence:
    """Ask, kill, wait for all ends, and compare client, Redis and store."""
    evidence, rng, begun = Evidence(), random.Random(plan.seed), time.monotonic()
    with world(home, plan) as there:
        asked = there.client.ask_many(_questions(there.files, plan))
        for _ in range(plan.rounds):
            _kill_each_kind(there, plan, rng, evidence)
        ends = dict(_ends(there.client, asked, plan.slo))
        evidence.causes = [each.cause for each in ends.values() if isinstance(each, NoAnswer)]
        outcomes = {name: _status(each) for name, each in ends.items()}
        evidence.outcomes.update(outcomes.values())
        for pending in asked:
            if pending.id not in outcomes:
                evidence.wrong.append(f"never ended: {_where_it_stands(there, pending.id)}")
        _check_leftovers(there, evidence)
        _check_ends(there, outcomes, evidence)
        _check_store(there, outcomes, evidence)
    evidence.seconds = time.monotonic() - begun
    return evidence


def _questions(files: DemoFiles, plan: Plan) -> list[Question]:
    """As many as wanted, in the demo's own words; their deadlines outlast all that is killed."""
    gold = [files.questions[number % len(files.questions)] for number in range(plan.questions)]
    return [
        Question(
            each.question,
            each.database,
            plan.slo,
            each.evidence,
            tenant=f"tenant-{number % 3}",
            options={"question_key": each.key, "candidates": 2},
        )
        for number, each in enumerate(gold)
    ]


def _kill_each_kind(there: World, plan: Plan, rng: random.Random, evidence: Evidence) -> None:
    kinds = there.kinds()
    rng.shuffle(kinds)
    for kind in kinds:
        time.sleep(plan.pause)
        evidence.in_flight_at_kills.append(_in_flight(there))
        until = time.monotonic() + READY_SECONDS
        while not there.kill(kind, rng):
            assert time.monotonic() < until, f"no {kind} ever ran again"
            time.sleep(POLL_SECONDS)
        evidence.kills[kind] += 1


def _in_flight(there: World) -> int:
    """How many questions run or wait to; -1 while Redis is away."""
    try:
        with _redis(there) as client:
            return int(client.zcard(Keys(there.settings.broker.prefix).deadlines))
    except redis.RedisError:
        return -1


def _ends(
    client: Client, asked: Sequence[Pending], patience: float
) -> Iterator[tuple[str, Outcome]]:
    """The end of each question as the client saw it."""
    for pending, outcome in client.completed(asked, timeout=patience):
        yield pending.id, outcome


def _status(outcome: Outcome) -> str:
    return outcome.status if isinstance(outcome, NoAnswer) else "answered"


def _where_it_stands(there: World, workflow_id: str) -> str:
    """What Redis and the store know of a question, for whoever must find out why."""
    keys, engine = Keys(there.settings.broker.prefix), open_store(there.settings, writing=False)
    stored = StoreReader(engine, there.settings.broker.prefix).question(workflow_id)
    engine.dispose()
    with _redis(there) as client:
        known = {
            "status": client.hgetall(keys.workflow(workflow_id)),
            "deadline": client.zscore(keys.deadlines, workflow_id),
            "outbox": client.zscore(keys.outbox, workflow_id),
            "result": client.get(f"celery-task-meta-{workflow_id}"),
            "trace": [str(event) for event in there.client.trace(workflow_id)],
            "stored": stored and stored.workflow,
        }
    return json.dumps(known, default=str)


def _check_leftovers(there: World, evidence: Evidence) -> None:
    """Outbox, deadlines, leases, load and the stream of records come to nothing."""
    keys = Keys(there.settings.broker.prefix)
    names = (keys.outbox, keys.deadlines, keys.running, keys.load)
    until = time.monotonic() + SETTLE_SECONDS
    with _redis(there) as client:
        stream = RecordStream(client, keys)
        while time.monotonic() < until:
            left = [name for name in names if client.exists(name)]
            backlog = stream.backlog()
            if not left and not backlog.waiting:
                break
            time.sleep(POLL_SECONDS)
        evidence.expect(not left, f"left in Redis: {left}")
        evidence.expect(not backlog.waiting, f"{backlog.waiting} wait to be recorded")
        evidence.expect(not backlog.dropped, f"{backlog.dropped} dropped unrecorded")
        evidence.expect(not backlog.aside, f"set aside: {stream.aside()}")


def _check_ends(there: World, outcomes: Mapping[str, str], evidence: Evidence) -> None:
    """Each question has one end, and each of its nodes at most one."""
    for name, status in outcomes.items():
        events = there.client.trace(name)
        ends = [event["status"] for event in events if event["event"] == "finished"]
        evidence.expect(ends == [status], f"{name}: the client saw {status}, the trace {ends}")
        done = Counter(event["node"] for event in events if event["event"] == "done")
        twice = [node for node, count in done.items() if count > 1]
        evidence.expect(not twice, f"{name}: done twice: {twice}")


def _check_store(there: World, outcomes: Mapping[str, str], evidence: Evidence) -> None:
    """The store has every question, whole, and of every attempt what the trace has."""
    engine = open_store(there.settings, writing=False)
    reader = StoreReader(engine, there.settings.broker.prefix)
    for name, status in outcomes.items():
        stored = reader.question(name)
        if stored is None:
            evidence.wrong.append(f"{name} is not in the store")
            continue
        row = stored.workflow
        whole = (row["status"], row["complete"]) == (status, True)
        evidence.expect(whole, f"{name}: stored as {row['status']}, whole: {row['complete']}")
        happened, read = _attempts(there.client.trace(name)), _attempts(stored.events)
        evidence.expect(happened == read, f"{name}: stored {read}, happened {happened}")
    questions = reader.counts()["workflows"]
    evidence.expect(questions == len(outcomes), f"{questions} questions stored")
    engine.dispose()


def _attempts(events: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, str]]:
    """Node, attempt and ending of everything that ended."""
    endings = ("done", "failed", "retried", "dropped")
    return sorted((e["node"], e["attempt"], e["event"]) for e in events if e["event"] in endings)


def _settings(config: Path, url: str) -> Settings:
    settings = load_settings(config)
    store = settings.store.model_copy(update={"url": SecretStr(url)})
    return settings.model_copy(update={"store": store})


def _environment(url: str, plan: Plan) -> dict[str, str]:
    return {
        "HEXGEN_STORE__URL": url,
        "HEXGEN_STORE__BATCH": "20",
        "HEXGEN_STORE__RETRY_MAX_SECONDS": "1",
        "HEXGEN_UP__CONTROL_WORKERS": "2",
        "HEXGEN_TUNER__ENABLED": "true",
        "HEXGEN_COORDINATOR__LEASE_SECONDS": "5",
        "HEXGEN_COORDINATOR__MAX_ATTEMPTS": "20",
        "HEXGEN_QUEUES__LEASE_SECONDS": "5",
        "HEXGEN_QUEUES__MAX_DELIVERIES": "100",
        "HEXGEN_FAULTS": plan.faults,
        "HEXGEN_FAULT_SEED": str(plan.seed),
    }


@contextlib.contextmanager
def _store(home: Path) -> Iterator[tuple[str, Callable[[], None] | None]]:
    """A store's URL, and what takes it away for a moment."""
    programs = binaries()
    if programs is None:
        yield f"sqlite:///{home / 'chaos.sqlite'}", None
        return
    with PostgresServer(programs) as server:

        def restart() -> None:
            server.stop()
            time.sleep(AWAY_SECONDS)
            server.start()

        yield server.create("chaos"), restart


def _redis(there: World) -> redis.Redis:
    url = there.state.broker_url.get_secret_value()
    return redis.Redis.from_url(url, decode_responses=True)


def _descendants(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return cast("list[psutil.Process]", psutil.Process(pid).children(recursive=True))
    return []


def _runs(process: psutil.Process, program: str) -> bool:
    """Whether it is that program, and not one of its own children under the same name."""
    try:
        command = " ".join(process.cmdline())
        return program in command and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as the command line says; 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.system", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each kind is killed")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    plan = Plan(options.questions, options.rounds, options.seed, slo=900.0)
    with tempfile.TemporaryDirectory(prefix="hexgen-chaos-") as home:
        evidence = run(plan, Path(home))
    print(json.dumps(evidence.to_json(), indent=1))
    return 1 if evidence.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
