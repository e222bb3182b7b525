"""The whole stack under a drawn population: Redis, workers, HTTP, emulated instances.

Questions are asked at the moments at which the simulator lets them arrive, so that both can be
compared question by question.
"""

from __future__ import annotations

import contextlib
import json
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
from hexgen_celery.coordination.state import WorkflowRecord
from hexgen_celery.core.fleet import Fleet
from hexgen_celery.names import ASK
from hexgen_celery.redis_client import connect
from hexgen_celery.settings import load_settings
from hexgen_celery.simulator import Choice, Policies
from hexgen_celery.simulator.population import DrawnQuestion
from hexgen_celery.workloads.canonical import dump_question
from workers.emulation.metrics import BUSY_SECONDS

READY_SECONDS = 90.0
PATIENCE_SECONDS = 900.0
POLL_SECONDS = 1.0
# Hundreds of answers are under way; in smaller pieces they would take most of the machine's time.
CHUNK_SECONDS = 1.0
END_TO_END = "vllm:e2e_request_latency_seconds"


@dataclass(frozen=True, slots=True)
class Totals:
    """What an instance has done since its start, emulated seconds: computing, and the lengths of
    its requests from their arrival at the server to their end."""

    busy: float
    requests: float


@dataclass(frozen=True, slots=True)
class Played:
    """One run over a population; emulated seconds.

    `latencies` by number of the question, the measured ones only. `utilisation` by pool (0 to 1),
    `llm_requests_per_second` of real time, both between the first and the last measured arrival.
    `overhead`: the share of the requests' time, from ready to done, that is not spent in servers:
    queues, admission and everything around. `waiting`: its part before a worker took them.
    """

    latencies: Mapping[int, float]
    utilisation: Mapping[str, float]
    llm_requests_per_second: float
    overhead: float
    waiting: float
    cached_share: float


class EmulatedCluster:
    """A running stack whose emulated instances are `speed` times faster than real time."""

    def __init__(self, client: Client, state: ClusterState, fleet: Fleet, speed: float) -> None:
        self.client = client
        self._state = state
        self._fleet = fleet
        self._speed = speed

    def play(self, population: Sequence[DrawnQuestion]) -> Played:
        """Ask every question at its moment; returns when all are answered.

        Raises:
            RuntimeError: some were not answered in `PATIENCE_SECONDS`.
        """
        before = self._totals()
        asked, marks = self._ask_all(population)
        self._await_all()
        after = self._totals()
        records = self._records(asked)
        return self._played(records, marks, _between(before, after))

    def _ask_all(
        self, population: Sequence[DrawnQuestion]
    ) -> tuple[dict[str, DrawnQuestion], list[tuple[float, dict[str, Totals]]]]:
        """Ids of what was asked; the instances' totals at the first and last measured arrival."""
        measured = [drawn for drawn in population if drawn.measured]
        ends = (measured[0].number, measured[-1].number)
        start = time.time() - population[0].at / self._speed
        asked: dict[str, DrawnQuestion] = {}
        marks: list[tuple[float, dict[str, Totals]]] = []
        for drawn in population:
            due = start + drawn.at / self._speed
            time.sleep(max(0.0, due - time.time()))
            asked[self._ask(drawn, due)] = drawn
            if drawn.number in ends:
                marks.append((time.time(), self._totals()))
        return asked, marks

    def _ask(self, drawn: DrawnQuestion, due: float) -> str:
        line = replace(drawn.line, database=drawn.database)
        payload: dict[str, Any] = {
            "workflow": "trace",
            "question": "",
            "database": drawn.database,
            "submitted_at": due,
            "slo_seconds": (drawn.deadline - drawn.at) / self._speed,
            "options": {"line": dump_question(line)},
        }
        return str(self.client.app.send_task(ASK, kwargs=payload, task_id=str(uuid.uuid4())).id)

    def _await_all(self) -> None:
        """Wait until the control workers have taken in every question and none is running."""
        until = time.time() + PATIENCE_SECONDS
        with connect(self.client.settings) as redis:
            time.sleep(POLL_SECONDS)
            while (left := redis.zcard(self.client.keys.deadlines)) and time.time() < until:
                time.sleep(POLL_SECONDS)
        if left:
            raise RuntimeError(f"{left} questions were not answered in {PATIENCE_SECONDS:g} s")

    def _records(
        self, asked: Mapping[str, DrawnQuestion]
    ) -> list[tuple[DrawnQuestion, WorkflowRecord]]:
        found = {
            record.submission.workflow_id: record
            for record in self.client.history.answered().records
        }
        if missing := asked.keys() - found.keys():
            raise RuntimeError(f"{len(missing)} of {len(asked)} questions have no answer")
        return [(drawn, found[workflow_id]) for workflow_id, drawn in asked.items()]

    def _played(
        self,
        records: Sequence[tuple[DrawnQuestion, WorkflowRecord]],
        marks: Sequence[tuple[float, dict[str, Totals]]],
        spent: Mapping[str, Totals],
    ) -> Played:
        (first, begin), (last, end) = marks
        window = last - first
        busy = {
            name: each.busy / (window * self._speed) for name, each in _between(begin, end).items()
        }
        nodes = [node.record for _, record in records for node in record.nodes.values()]
        whole = self._speed * sum(node["finished_at"] - node["ready_at"] for node in nodes)
        waited = self._speed * sum(node["claimed_at"] - node["ready_at"] for node in nodes)
        served = sum(each.requests for each in spent.values())
        done = sum(first <= node["finished_at"] <= last for node in nodes)
        return Played(
            latencies={
                drawn.number: self._latency(record) for drawn, record in records if drawn.measured
            },
            utilisation=self._by_pool(busy),
            llm_requests_per_second=done / window,
            overhead=1.0 - served / whole,
            waiting=waited / whole,
            cached_share=_cached_share(records),
        )

    def _latency(self, record: WorkflowRecord) -> float:
        return ((record.finished_at or 0.0) - record.submission.submitted_at) * self._speed

    def _totals(self) -> dict[str, Totals]:
        return {one.name: _read_totals(one.url) for one in self._state.instances}

    def _by_pool(self, shares: Mapping[str, float]) -> dict[str, float]:
        pools: dict[str, list[float]] = {}
        for instance in self._fleet.instances:
            pools.setdefault(instance.pool, []).append(shares[instance.name])
        return {pool: statistics.fmean(values) for pool, values in pools.items()}


@contextlib.contextmanager
def emulated_cluster(
    fleet: Fleet,
    policies: Policies,
    speed: float,
    extra: str = "",
    *,
    engine_priority: bool = True,
) -> Iterator[EmulatedCluster]:
    """A cluster of `fleet`'s instances under `policies`, on this machine; `extra` is TOML.

    Without `engine_priority` the servers wait by arrival, as vLLM does unless told otherwise.
    """
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hexgen-stack-")))
        config = directory / "cluster.toml"
        document = cluster_document(directory, fleet, policies, _emulator(speed, engine_priority))
        config.write_text(document + extra, encoding="utf-8")
        state = stack.enter_context(local_cluster(config, READY_SECONDS))
        settings = load_settings(config)
        broker = settings.broker.model_copy(update={"url": state.broker_url})
        client = stack.enter_context(Client(settings.model_copy(update={"broker": broker})))
        yield EmulatedCluster(client, state, fleet, speed)


def cluster_document(directory: Path, fleet: Fleet, policies: Policies, emulator: str) -> str:
    """The cluster's configuration (TOML) with everything it writes below `directory`."""
    head = (
        f"[up]\ndirectory = {json.dumps(str(directory))}\n"
        f"[sql]\nhome = {json.dumps(str(directory / 'databases'))}\n"
        f'[log]\nlevel = "warning"\n[deadline]\nmax_slo_seconds = 86400.0\n'
        f'[router]\ndispatch = "{policies.dispatch.name}"\n'
        f"{_parameters('router', policies.dispatch)}"
        f'[queues]\norder = "{policies.order.name}"\n'
        f'[admission]\npolicy = "{policies.admission.name}"\n'
        f"{_parameters('admission', policies.admission)}"
    )
    return head + emulator + "".join(_pool(fleet, pool) for pool in fleet.pools)


def _emulator(speed: float, engine_priority: bool) -> str:
    scheduling = "priority" if engine_priority else "fcfs"
    return (
        f"[emulator]\nspeed = {speed}\nchunk_seconds = {CHUNK_SECONDS}\n"
        f'scheduling_policy = "{scheduling}"\n'
    )


def _parameters(section: str, choice: Choice) -> str:
    lines = "".join(f"{name} = {json.dumps(v)}\n" for name, v in choice.parameters.items())
    return f"[{section}.parameters]\n{lines}"


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


def _between(before: Mapping[str, Totals], after: Mapping[str, Totals]) -> dict[str, Totals]:
    return {
        name: Totals(after[name].busy - was.busy, after[name].requests - was.requests)
        for name, was in before.items()
    }


def _cached_share(records: Sequence[tuple[DrawnQuestion, WorkflowRecord]]) -> float:
    """Prompt tokens that the servers found in their caches."""
    results = [
        node.outcome.get("result") or {} for _, record in records for node in record.nodes.values()
    ]
    prompts = sum(int(result["input_tokens"]) for result in results)
    return sum(int(result["cached_tokens"]) for result in results) / prompts


def _read_totals(url: str) -> Totals:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as response:
        text = response.read().decode()
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return Totals(samples[f"{BUSY_SECONDS}_total"], samples[f"{END_TO_END}_sum"])
