"""The live tuner on the emulated cluster while the load, the workload and the hardware change.

One continuous stream of questions; the tuner's own process follows it. Report with plots in
build/tuner/index.html.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hexgen_celery.api import Client
from hexgen_celery.instances import InstanceDirectory
from hexgen_celery.live_tuning import TuningEntry, TuningStore
from hexgen_celery.profiles_io import load_fleet
from hexgen_celery.redis_client import connect
from hexgen_celery.reports.plots import Points, lines
from hexgen_celery.simulator import Choice, Policies
from hexgen_celery.workloads import Workload, WorkloadQuestion, WorkloadRequest
from tests.benchmarks.agreement import drawn_workload, recorded_population
from tests.benchmarks.rows import Row, measured
from tests.benchmarks.stack_cluster import emulated_cluster

PROJECT = Path(__file__).parents[2]
REPORT = PROJECT / "build" / "tuner"
FLEET, LOST = "het-30b", "a100-2"
PHASE_SECONDS = 60.0
DATABASES = 3
# A wrong start, so that there is something to find.
START_ALPHA = 1.0
TUNER = """[tuner]
enabled = true
interval_seconds = 10.0
window_seconds = 40.0
least_questions = 40
questions = 120
seeds = 2
"""


@dataclass(frozen=True, slots=True)
class Phase:
    """So many questions a second of one kind, perhaps with an instance taken away."""

    name: str
    rate: float
    question: WorkloadQuestion
    lost: bool = False


def question(name: str, *, schema: int, answer: int) -> WorkloadQuestion:
    """Linking, two candidates, and a choice; sizes in tokens."""

    def request(
        number: int, stage: str, after: tuple[int, ...], tail: int, output: int
    ) -> WorkloadRequest:
        size = 1500 + schema + tail
        return WorkloadRequest(number, stage, f"{name}.{number}", after, size, output, 1500, schema)

    requests = (
        request(0, "schema_linking", (), 200, 30),
        request(1, "candidate_generation", (0,), 600, answer),
        request(2, "candidate_generation", (0,), 600, answer),
        request(3, "evaluation", (1, 2), 900, 40),
    )
    return WorkloadQuestion(name, name, requests)


LIGHT = question("light", schema=2000, answer=150)
HEAVY = question("heavy", schema=6000, answer=500)
PHASES = (
    Phase("low load", 1.2, LIGHT),
    Phase("high load", 3.0, LIGHT),
    Phase("longer prompts and answers", 1.5, HEAVY),
    Phase("one instance lost", 1.2, HEAVY, lost=True),
)


def run() -> list[Row]:
    """Rows of the tuner's predictions, and the report."""
    fleet = load_fleet(FLEET)
    policies = Policies(dispatch=Choice("alpha", {"alpha": START_ALPHA}))
    with emulated_cluster(fleet, policies, 1.0, TUNER) as cluster:
        started = time.time()
        timers = [_lose(cluster.client, at) for at in _losses()]
        cluster.play(recorded_population(stream(), fleet))
        for timer in timers:
            timer.cancel()
        client = cluster.client
        with connect(client.settings) as redis:
            entries = list(reversed(TuningStore(redis, client.keys).recent(100)))
    _write_report(entries, started)
    return _rows(entries, started)


def stream() -> Workload:
    """The questions of all phases, one after the other."""
    questions: list[WorkloadQuestion] = []
    for number, phase in enumerate(PHASES):
        count = round(phase.rate * PHASE_SECONDS)
        drawn = drawn_workload([phase.question], count, phase.rate, DATABASES, seed=number)
        begin = number * PHASE_SECONDS
        questions += [replace(one, arrival=begin + (one.arrival or 0.0)) for one in drawn.questions]
    questions.sort(key=lambda one: one.arrival or 0.0)
    return Workload("shifts", tuple(questions))


def _losses() -> list[float]:
    return [number * PHASE_SECONDS for number, phase in enumerate(PHASES) if phase.lost]


def _lose(client: Client, at: float) -> threading.Timer:
    def drain() -> None:
        with connect(client.settings) as redis:
            InstanceDirectory(redis, client.keys).drain(LOST)

    timer = threading.Timer(at, drain)
    timer.start()
    return timer


def _rows(entries: Sequence[TuningEntry], started: float) -> list[Row]:
    errors = [abs(entry.error) for entry in entries if entry.error is not None]
    moves = [entry for entry in entries if entry.moved]
    rows = [measured("tuner.decisions", [len(entries)], "", better="higher")]
    rows.append(measured("tuner.moves", [len(moves)], "", better="higher"))
    if errors:
        percent = [100 * error for error in errors]
        rows.append(measured("tuner.prediction_error", percent, "%", bar=30.0))
    if moves:
        first = [moves[0].at - started]
        rows.append(
            measured("tuner.first_move_seconds", first, "s", alpha=moves[0].chosen["alpha"])
        )
    return rows


def _write_report(entries: Sequence[TuningEntry], started: float) -> None:
    def curve(values: Sequence[float]) -> Points:
        return [(entry.at - started, value) for entry, value in zip(entries, values, strict=True)]

    alphas = [float(entry.chosen["alpha"]) for entry in entries]
    alpha = lines(
        {"α in force": curve(alphas)}, title="What the tuner chose", across="seconds", up="α"
    )
    losses = {
        "predicted": curve([entry.predicted for entry in entries]),
        "measured in the window": curve([entry.measured for entry in entries]),
    }
    loss = lines(losses, title="P95 latency", across="seconds", up="seconds")
    phases = "".join(
        f"<li>from {number * PHASE_SECONDS:g} s: {phase.name}, {phase.rate:g} questions/s</li>"
        for number, phase in enumerate(PHASES)
    )
    REPORT.mkdir(parents=True, exist_ok=True)
    page = f"<!doctype html><meta charset=utf-8><h1>Following the load</h1><ul>{phases}</ul>"
    decisions = [entry.to_json() for entry in entries]
    (REPORT / "decisions.json").write_text(json.dumps(decisions, indent=2), encoding="utf-8")
    (REPORT / "index.html").write_text(f"{page}{alpha}{loss}", encoding="utf-8")
