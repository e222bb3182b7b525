"""One of four emulated instances dies under load and comes back: what is lost, and how soon used.

Real workers, real HTTP; the servers are emulated, ten times faster than their profiles. The load is
even in time, of chats with one SLO; the reference is the same load on the three others alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from celery.result import AsyncResult

from tests.benchmarks.emulated_servers import emulated_cluster
from tests.benchmarks.rows import Row, measured
from tests.integration.workers.local_workers import LocalWorkers

SPEED = 10.0
PROFILES = {
    "a1": "a100-80g-x4-llama-3.1-70b",
    "a2": "a100-80g-x4-llama-3.1-70b",
    "b1": "l40s-x4-llama-3.1-70b",
    "c1": "a6000-x4-llama-3.1-70b",
}
VICTIM = "a2"
RATE = 14.0
SLO_SECONDS = 2.5
KILLED_AT, BACK_AT, END_AT = 12.0, 48.0, 62.0
# Questions are judged from so long after the kill on, until the instance is back.
SETTLED_SECONDS = 30.0
OUTPUT_TOKENS = 400
PATIENCE_SECONDS = 60.0
GRACE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Ended:
    """One question: when it was sent (seconds from the start), met or not, and where it ran."""

    sent: float
    answered: bool
    met: bool
    instance: str


def run() -> list[Row]:
    """Three rows; about two and a half minutes."""
    with emulated_cluster(PROFILES, SPEED, answer_tokens=OUTPUT_TOKENS) as (workers, servers):
        events = {
            KILLED_AT: lambda: servers.kill(VICTIM),
            BACK_AT: lambda: servers.start(VICTIM),
        }
        ended = _load(workers, END_AT, events)
    judged = [e for e in ended if KILLED_AT + SETTLED_SECONDS <= e.sent < BACK_AT]
    back = [e.sent - BACK_AT for e in ended if e.sent >= BACK_AT and e.instance == VICTIM]
    others = {name: profile for name, profile in PROFILES.items() if name != VICTIM}
    with emulated_cluster(others, SPEED, answer_tokens=OUTPUT_TOKENS) as (workers, _):
        three = _load(workers, BACK_AT - KILLED_AT - SETTLED_SECONDS + GRACE_SECONDS, {})
    reference = [e for e in three if e.sent >= GRACE_SECONDS]
    behind = 100 * (_attainment(reference) - _attainment(judged))
    lost = sum(not each.answered for each in ended)
    shares = {"attainment": _attainment(judged), "of_three": _attainment(reference)}
    return [
        measured(
            "router.kill_one_of_four_lost", [lost], "questions", bar=0.0, questions=len(ended)
        ),
        measured(
            "router.kill_attainment_behind_three",
            [behind],
            "points",
            bar=5.0,
            attainment=shares["attainment"],
            of_three=shares["of_three"],
        ),
        measured("router.back_in_use_seconds", [min(back, default=1e9)], "s", bar=10.0),
    ]


def _load(
    workers: LocalWorkers, seconds: float, events: dict[float, Callable[[], None]]
) -> list[Ended]:
    """Send chats evenly for `seconds`, let `events` happen at their times, wait for all."""
    pending: list[tuple[float, AsyncResult[Any]]] = []
    due = sorted(events)
    start = time.monotonic()
    for number in range(int(seconds * RATE)):
        sent = number / RATE
        while due and due[0] <= sent:
            events[due.pop(0)]()
        time.sleep(max(0.0, start + sent - time.monotonic()))
        pending.append((sent, _chat(workers, number)))
    return [_ended(sent, result) for sent, result in pending]


def _chat(workers: LocalWorkers, number: int) -> AsyncResult[Any]:
    """Deadlines are far away, so that whoever is late still ends; lateness is judged here."""
    system = {"role": "system", "content": f"rules {number % 4} " * 800}
    asked = {"role": "user", "content": f"question {number} " * 50}
    return workers.chat(
        "q", slo_seconds=PATIENCE_SECONDS, messages=[system, asked], max_tokens=OUTPUT_TOKENS
    )


def _ended(sent: float, result: AsyncResult[Any]) -> Ended:
    try:
        answer = result.get(timeout=PATIENCE_SECONDS)
    except Exception:
        # Whatever it was, the question was lost, which is what is counted.
        return Ended(sent, answered=False, met=False, instance="")
    met = answer["latency_seconds"] <= SLO_SECONDS
    return Ended(sent, answered=True, met=met, instance=answer["stages"][0]["instance"])


def _attainment(ended: Sequence[Ended]) -> float:
    return sum(each.met for each in ended) / len(ended) if ended else 0.0
