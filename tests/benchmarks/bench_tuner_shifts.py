"""The live tuner on the emulated cluster while the load, the workload and the hardware change.

The same stream of questions is played twice on the whole stack: with the tuner's own process
following it, and with the weight left where it began. Report with plots in build/tuner/index.html.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from pathlib import Path

from hexgen_celery.api import Client
from hexgen_celery.instances import InstanceDirectory
from hexgen_celery.live_tuning import TuningEntry
from hexgen_celery.profiles_io import load_fleet
from hexgen_celery.redis_client import connect
from hexgen_celery.reports.plots import Points, lines
from hexgen_celery.simulator import Choice, Policies
from hexgen_celery.simulator.population import DrawnQuestion
from hexgen_celery.simulator.results import percentile
from hexgen_celery.workloads import Workload, WorkloadQuestion, WorkloadRequest
from tests.benchmarks.agreement import drawn_workload, recorded_population
from tests.benchmarks.rows import Row, measured
from tests.benchmarks.stack_cluster import emulated_cluster

PROJECT = Path(__file__).parents[2]
REPORT = PROJECT / "build" / "tuner"
FLEET, LOST = "het-30b", "a100-2"
# Emulated seconds for each of the real ones.
SPEED = 3.0
# A share of each phase, for trying the benchmark itself out.
LENGTH = float(os.environ.get("TUNER_BENCH_LENGTH", "1"))
DATABASES = 3
# A wrong start, so that there is something to find.
START_ALPHA = 1.0
# Real seconds.
TUNER = """[tuner]
enabled = true
interval_seconds = 6.0
window_seconds = 30.0
least_questions = 40
questions = 150
seeds = 2
"""
BIN_SECONDS = 30.0
TUNED, FIXED = "tuned", f"α fixed at {START_ALPHA:g}"


@dataclass(frozen=True, slots=True)
class Phase:
    """So many questions a second of one kind, for so long, perhaps with an instance taken away.
    Emulated seconds."""

    name: str
    key: str
    seconds: float
    rate: float
    question: WorkloadQuestion
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Played:
    """One run: arrival and latency of each question (emulated seconds), and the decisions."""

    started: float
    latencies: Sequence[tuple[float, float]]
    entries: Sequence[TuningEntry]


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
    Phase("low load", "start", 120.0, 1.2, LIGHT),
    Phase("high load", "load", 120.0, 2.4, LIGHT),
    Phase("longer prompts and answers", "workload", 120.0, 1.0, HEAVY),
    Phase("one A100 of two lost", "hardware", 180.0, 0.6, HEAVY, lost=True),
)


def run() -> list[Row]:
    """Rows of the tuner's predictions and of what it brought, and the report."""
    tuned = _played(TUNER)
    fixed = _played("")
    REPORT.mkdir(parents=True, exist_ok=True)
    decisions = [entry.to_json() for entry in tuned.entries]
    (REPORT / "decisions.json").write_text(json.dumps(decisions, indent=2), encoding="utf-8")
    (REPORT / "index.html").write_text(_page(tuned, fixed), encoding="utf-8")
    return [*_decision_rows(tuned), *_latency_rows(tuned, fixed)]


def stream() -> Workload:
    """The questions of all phases, one after the other."""
    questions: list[WorkloadQuestion] = []
    for number, (phase, (begin, end)) in enumerate(zip(PHASES, _spans(), strict=True)):
        count = round(phase.rate * (end - begin))
        drawn = drawn_workload([phase.question], count, phase.rate, DATABASES, seed=number)
        questions += [replace(one, arrival=begin + (one.arrival or 0.0)) for one in drawn.questions]
    questions.sort(key=lambda one: one.arrival or 0.0)
    return Workload("shifts", tuple(questions))


def _spans() -> list[tuple[float, float]]:
    """Begin and end of each phase, emulated seconds."""
    ends = [0.0]
    for phase in PHASES:
        ends.append(ends[-1] + phase.seconds * LENGTH)
    return list(pairwise(ends))


def _played(extra: str) -> Played:
    fleet = load_fleet(FLEET)
    policies = Policies(dispatch=Choice("alpha", {"alpha": START_ALPHA}))
    population = recorded_population(stream(), fleet)
    with emulated_cluster(fleet, policies, SPEED, extra) as cluster:
        started = time.time()
        with _losses(cluster.client):
            latencies = cluster.play(population).latencies
        entries = list(reversed(cluster.client.tunings(100)))
    return Played(started, _by_arrival(population, latencies), entries)


def _by_arrival(
    population: Sequence[DrawnQuestion], latencies: Mapping[int, float]
) -> list[tuple[float, float]]:
    return [(drawn.at, latencies[drawn.number]) for drawn in population]


@contextlib.contextmanager
def _losses(client: Client) -> Iterator[None]:
    """Drain the instance when its phase begins."""

    def drain() -> None:
        with connect(client.settings) as redis:
            InstanceDirectory(redis, client.keys).drain(LOST)

    begins = [begin for phase, (begin, _) in zip(PHASES, _spans(), strict=True) if phase.lost]
    timers = [threading.Timer(begin / SPEED, drain) for begin in begins]
    for timer in timers:
        timer.start()
    yield
    for timer in timers:
        timer.cancel()


def _decision_rows(tuned: Played) -> list[Row]:
    entries = tuned.entries
    errors = [100 * abs(one.error) for one in entries if one.error is not None]
    moves = [one for one in entries if one.moved]
    rows = [
        measured("tuner.decisions", [len(entries)], "", better="higher"),
        measured("tuner.moves", [len(moves)], ""),
        measured("tuner.taken_back", [sum(one.reverted for one in entries)], ""),
        measured("tuner.judged", [len(errors)], "", better="higher"),
    ]
    if errors:
        rows.append(measured("tuner.prediction_error", errors, "%", bar=30.0))
    if moves:
        first, alpha = moves[0].at - tuned.started, moves[0].chosen["alpha"]
        rows.append(measured("tuner.first_move_seconds", [first], "s", alpha=alpha))
    return rows


def _latency_rows(tuned: Played, fixed: Played) -> list[Row]:
    """P95 of the tuned run over the fixed one's, phase by phase."""
    rows = []
    for phase, span in zip(PHASES, _spans(), strict=True):
        ours, theirs = _p95(tuned, span), _p95(fixed, span)
        rows.append(
            measured(
                f"router.tuner_p95_ratio_{phase.key}",
                [ours / theirs],
                "",
                bar=1.05,
                tuned_seconds=round(ours, 2),
                fixed_seconds=round(theirs, 2),
            )
        )
    return rows


def _p95(played: Played, span: tuple[float, float]) -> float:
    begin, end = span
    return percentile([took for at, took in played.latencies if begin <= at < end], 0.95)


def _page(tuned: Played, fixed: Played) -> str:
    end = _spans()[-1][1]
    in_force = {TUNED: _alphas(tuned, end), FIXED: [(0.0, START_ALPHA), (end, START_ALPHA)]}
    curves = {name: _p95_curve(one) for name, one in ((TUNED, tuned), (FIXED, fixed))}
    judged = {
        "predicted": _of_entries(tuned, [one.predicted * SPEED for one in tuned.entries]),
        "measured in the window": _of_entries(
            tuned, [one.measured * SPEED for one in tuned.entries]
        ),
    }
    across = "emulated seconds"
    plots = (
        lines(in_force, title="α in force", across=across, up="α"),
        lines(curves, title=f"P95 of {BIN_SECONDS:g} s of arrivals", across=across, up="seconds"),
        lines(judged, title="The tuner's prediction and its window", across=across, up="P95, s"),
    )
    head = "<!doctype html><meta charset=utf-8><title>Following the load</title>"
    return f"{head}<h1>Following the load</h1>{_phases()}{''.join(plots)}{_decisions(tuned)}"


def _phases() -> str:
    items = (
        f"<li>from {begin:g} s: {phase.name}, {phase.rate:g} questions/s</li>"
        for phase, (begin, _) in zip(PHASES, _spans(), strict=True)
    )
    return (
        f"<p>{FLEET} emulated, {SPEED:g} times faster than real time.</p><ul>{''.join(items)}</ul>"
    )


def _alphas(played: Played, end: float) -> Points:
    """Steps: a weight holds until another is put in force."""
    points = [(0.0, START_ALPHA)]
    for at, alpha in _of_entries(played, [float(one.chosen["alpha"]) for one in played.entries]):
        points += [(at, points[-1][1]), (at, alpha)]
    return [*points, (end, points[-1][1])]


def _of_entries(played: Played, values: Sequence[float]) -> list[tuple[float, float]]:
    times = [(entry.at - played.started) * SPEED for entry in played.entries]
    return list(zip(times, values, strict=True))


def _p95_curve(played: Played) -> Points:
    bins: dict[int, list[float]] = {}
    for at, took in played.latencies:
        bins.setdefault(int(at // BIN_SECONDS), []).append(took)
    return [
        ((number + 0.5) * BIN_SECONDS, percentile(b, 0.95)) for number, b in sorted(bins.items())
    ]


def _decisions(played: Played) -> str:
    rows = "".join(
        f"<tr><td>{at:.0f}<td>{entry.chosen['alpha']:g}<td>{escape(entry.why)}"
        f"<td>{'' if entry.error is None else f'{entry.error:+.0%}'}<td>{entry.backoff}</tr>"
        for entry, (at, _) in zip(
            played.entries, _of_entries(played, [0.0] * len(played.entries)), strict=True
        )
    )
    head = "<tr><th>at, s<th>α<th>why<th>error of the prediction judged<th>backoff</tr>"
    took = [entry.seconds for entry in played.entries]
    each = f"<p>A decision took {statistics.median(took):.1f} s.</p>" if took else ""
    return f"<h2>Decisions</h2>{each}<table>{head}{rows}</table>"
