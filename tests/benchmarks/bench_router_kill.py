"""One of four emulated instances dies under load and comes back: what is lost, and how soon used.

Real workers, real HTTP; the servers are emulated, ten times faster than their profiles. The load is
Poisson, of chats of many lengths with one SLO, which three instances cannot keep for the longest.
The reference is the same chats at the same moments on the three others alone.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
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
RATE = 30.0
SLO_SECONDS = 2.4
KILLED_AT, BACK_AT, END_AT = 12.0, 72.0, 86.0
# Questions are judged from so long after the kill on, until the instance is back.
SETTLED_SECONDS = 30.0
JUDGED_FROM = KILLED_AT + SETTLED_SECONDS
OUTPUT_TOKENS = (200, 600)
PATIENCE_SECONDS = 60.0
GRACE_SECONDS = 15.0
SEED = 0


@dataclass(frozen=True, slots=True)
class Chat:
    """One question: when it is sent (seconds from the start), and the length of its answer."""

    number: int
    at: float
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Ended:
    """One question: when it was sent (seconds from the start), met or not, and where it ran."""

    sent: float
    answered: bool
    met: bool
    instance: str


def run() -> list[Row]:
    """Three rows; about three minutes."""
    chats = list(_chats())
    longest = OUTPUT_TOKENS[1]
    with emulated_cluster(PROFILES, SPEED, answer_tokens=longest) as (workers, servers):
        events = {
            KILLED_AT: lambda: servers.kill(VICTIM),
            BACK_AT: lambda: servers.start(VICTIM),
        }
        ended = _load(workers, chats, events)
    judged = _judged(ended)
    back = [e.sent - BACK_AT for e in ended if e.sent >= BACK_AT and e.instance == VICTIM]
    others = {name: profile for name, profile in PROFILES.items() if name != VICTIM}
    with emulated_cluster(others, SPEED, answer_tokens=longest) as (workers, _):
        begin = JUDGED_FROM - GRACE_SECONDS
        three = _load(workers, [chat for chat in chats if begin <= chat.at < BACK_AT], {})
    reference = _judged(three)
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
            of_four=_attainment([e for e in ended if e.sent < KILLED_AT - SLO_SECONDS]),
            questions=len(judged),
        ),
        measured("router.back_in_use_seconds", [min(back, default=1e9)], "s", bar=10.0),
    ]


def _chats() -> Iterator[Chat]:
    rng = random.Random(SEED)
    at, number = 0.0, 0
    while at < END_AT:
        yield Chat(number, at, rng.randint(*OUTPUT_TOKENS))
        at += rng.expovariate(RATE)
        number += 1


def _load(
    workers: LocalWorkers, chats: Sequence[Chat], events: dict[float, Callable[[], None]]
) -> list[Ended]:
    """Send `chats` at their moments, let `events` happen at theirs, wait for all."""
    pending: list[tuple[float, AsyncResult[Any]]] = []
    due = sorted(events)
    start = time.monotonic() - chats[0].at
    for chat in chats:
        while due and due[0] <= chat.at:
            events[due.pop(0)]()
        time.sleep(max(0.0, start + chat.at - time.monotonic()))
        pending.append((chat.at, _sent(workers, chat)))
    return [_ended(sent, result) for sent, result in pending]


def _sent(workers: LocalWorkers, chat: Chat) -> AsyncResult[Any]:
    """Deadlines are far away, so that whoever is late still ends; lateness is judged here."""
    system = {"role": "system", "content": f"rules {chat.number % 4} " * 800}
    asked = {"role": "user", "content": f"question {chat.number} " * 50}
    return workers.chat(
        "q",
        slo_seconds=PATIENCE_SECONDS,
        messages=[system, asked],
        max_tokens=chat.output_tokens,
    )


def _judged(ended: Sequence[Ended]) -> list[Ended]:
    return [each for each in ended if JUDGED_FROM <= each.sent < BACK_AT]


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
