"""The same questions at the same moments on the emulated cluster and in the simulator.

Both share the engine model, so this measures everything around it: queues, claims, admission,
routing, and the time all that takes.
"""

from __future__ import annotations

import contextlib
import json
import random
import statistics
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from hexgen_celery.api import Client
from hexgen_celery.cli.local_cluster import local_cluster
from hexgen_celery.cluster import ClusterState
from hexgen_celery.core.fleet import Fleet
from hexgen_celery.names import ASK
from hexgen_celery.settings import load_settings
from hexgen_celery.simulator import Choice, Policies, SimulationConfig, run
from hexgen_celery.simulator.config import RECORDED
from hexgen_celery.simulator.results import percentile
from hexgen_celery.tracing import RecordedQuestions
from hexgen_celery.workloads import Workload, WorkloadQuestion
from hexgen_celery.workloads.canonical import dump_question
from workers.emulation.metrics import BUSY_SECONDS

READY_SECONDS = 90.0
# Far beyond every latency, because a question that expires ends early on one side only.
SLO_SECONDS = 20_000.0
PATIENCE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Figures:
    """One run. Seconds are the instances' own (emulated or simulated); utilisation by pool, 0 to 1,
    between the first and the last arrival."""

    p50: float
    p95: float
    mean: float
    utilisation: Mapping[str, float]

    @classmethod
    def of(cls, latencies: Sequence[float], utilisation: Mapping[str, float]) -> Figures:
        """Summarize `latencies`."""
        mean = statistics.fmean(latencies)
        return cls(percentile(latencies, 0.5), percentile(latencies, 0.95), mean, utilisation)

    def differences(self, other: Figures) -> dict[str, float]:
        """Per cent of `other` for latencies; the largest over the pools, in points, for
        utilisation."""
        latencies = {
            name: 100 * abs(getattr(self, name) / getattr(other, name) - 1)
            for name in ("p50", "p95", "mean")
        }
        points = [
            abs(self.utilisation[pool] - other.utilisation[pool]) for pool in other.utilisation
        ]
        return {**latencies, "utilisation": 100 * max(points)}


def drawn_workload(
    questions: Sequence[WorkloadQuestion], count: int, rate: float, databases: int, seed: int
) -> Workload:
    """`count` questions with Poisson arrivals at `rate` (per second) and Zipf-popular databases."""
    rng = random.Random(seed)
    weights = [1 / (rank + 1) for rank in range(databases)]
    at, drawn = 0.0, []
    for _ in range(count):
        (number,) = rng.choices(range(databases), weights)
        line = rng.choice(questions)
        drawn.append(
            replace(
                line,
                database=f"{line.database}.{number}",
                arrival=at,
                slo_seconds=SLO_SECONDS,
                split="test",
            )
        )
        at += rng.expovariate(rate)
    return Workload("agreement", tuple(drawn))


def simulated(workload: Workload, fleet: Fleet, policies: Policies) -> Figures:
    """The simulator's figures."""
    config = SimulationConfig(
        workload, fleet, rate=1.0, policies=policies, arrivals=Choice(RECORDED)
    )
    result = run(config)
    return Figures.of([question.latency for question in result.questions], result.utilisation)


class EmulatedCluster:
    """The whole stack: Redis, workers, HTTP, emulated instances at `speed` times real time."""

    def __init__(self, client: Client, state: ClusterState, fleet: Fleet, speed: float) -> None:
        self.client = client
        self._state = state
        self._fleet = fleet
        self._speed = speed

    def run(self, workload: Workload) -> Figures:
        """Ask every question at its moment; the figures once all are answered."""
        start = time.time()
        ids, begin = [], self._busy()
        for question in workload.questions:
            due = start + (question.arrival or 0.0) / self._speed
            time.sleep(max(0.0, due - time.time()))
            ids.append(self._ask(question, due))
        busy = self._busy()
        window = (time.time() - start) * self._speed
        recorded = self._answers(ids)
        latencies = [
            ((record.finished_at or 0.0) - record.submission.submitted_at) * self._speed
            for record in recorded.records
        ]
        shares = {name: (busy[name] - begin[name]) / window for name in busy}
        return Figures.of(latencies, self._by_pool(shares))

    def _ask(self, question: WorkloadQuestion, due: float) -> str:
        line = dump_question(question)
        payload: dict[str, Any] = {
            "workflow": "trace",
            "question": "",
            "database": "",
            "submitted_at": due,
            "slo_seconds": SLO_SECONDS / self._speed,
            "options": {"line": line},
        }
        return str(self.client.app.send_task(ASK, kwargs=payload, task_id=str(uuid.uuid4())).id)

    def _answers(self, ids: Sequence[str]) -> RecordedQuestions:
        until = time.time() + PATIENCE_SECONDS
        while time.time() < until:
            found = self.client.history.answered()
            wanted = [one for one in found.records if one.submission.workflow_id in set(ids)]
            if len(wanted) == len(ids):
                return RecordedQuestions(tuple(wanted))
            time.sleep(2.0)
        raise RuntimeError(f"{len(ids) - len(wanted)} of {len(ids)} questions were not answered")

    def _busy(self) -> dict[str, float]:
        """Emulated seconds in which each instance computed."""
        return {one.name: _busy_seconds(one.url) for one in self._state.instances}

    def _by_pool(self, shares: Mapping[str, float]) -> dict[str, float]:
        pools: dict[str, list[float]] = {}
        for instance in self._fleet.instances:
            pools.setdefault(instance.pool, []).append(shares[instance.name])
        return {pool: statistics.fmean(values) for pool, values in pools.items()}


@contextlib.contextmanager
def emulated_cluster(
    fleet: Fleet, policies: Policies, speed: float, extra: str = ""
) -> Iterator[EmulatedCluster]:
    """A cluster of `fleet`'s instances under `policies`, on this machine; `extra` is TOML."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hexgen-agree-")))
        config = directory / "cluster.toml"
        document = _document(directory, fleet, policies, speed, extra)
        config.write_text(document, encoding="utf-8")
        state = stack.enter_context(local_cluster(config, READY_SECONDS))
        settings = load_settings(config)
        broker = settings.broker.model_copy(update={"url": state.broker_url})
        client = stack.enter_context(Client(settings.model_copy(update={"broker": broker})))
        yield EmulatedCluster(client, state, fleet, speed)


def _document(
    directory: Path, fleet: Fleet, policies: Policies, speed: float, extra: str = ""
) -> str:
    dispatch = policies.dispatch
    parameters = "".join(f"{name} = {json.dumps(v)}\n" for name, v in dispatch.parameters.items())
    head = (
        f"[up]\ndirectory = {json.dumps(str(directory))}\n"
        f"[sql]\nhome = {json.dumps(str(directory / 'databases'))}\n"
        f'[log]\nlevel = "warning"\n[emulator]\nspeed = {speed}\n'
        f"[deadline]\nmax_slo_seconds = 86400.0\n"
        f'[router]\ndispatch = "{dispatch.name}"\n[router.parameters]\n{parameters}'
        f'[queues]\norder = "{policies.order.name}"\n'
    )
    return head + extra + "".join(_pool(fleet, pool) for pool in fleet.pools)


def _pool(fleet: Fleet, pool: str) -> str:
    members = [one for one in fleet.instances if one.pool == pool]
    profile = members[0].profile
    text = (
        f'[[pools]]\nname = "{pool}"\ngpu = "{profile.gpu}"\nmodel = "{fleet.model}"\n'
        f'profile = "{profile.name}"\nconcurrency = {profile.max_sequences}\n'
    )
    return text + "".join(
        f'[[pools.instances]]\nname = "{one.name}"\nengine = "emulated"\n' for one in members
    )


def _busy_seconds(url: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as response:
        text = response.read().decode()
    for family in text_string_to_metric_families(text):
        if family.name == BUSY_SECONDS:
            return float(family.samples[0].value)
    raise RuntimeError(f"{url} does not tell {BUSY_SECONDS}")
