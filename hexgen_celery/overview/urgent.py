"""The requests that are most urgent, and the questions that may miss their deadlines.

What is looked at is bounded: the head of each queue, and the questions with the nearest deadlines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis

from hexgen_celery.keys import Keys
from hexgen_celery.overview.counts import ClusterCounts
from hexgen_celery.transport.channel import is_sorted
from hexgen_celery.transport.inspection import QueueInspector, WaitingRequest

MOST_QUEUES = 32
MOST_QUESTIONS = 50
LATEST_EVENTS = 16
MILLISECONDS = 1000.0
RISK_SECONDS = 1.0
RISK_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class QuestionAtWork:
    """A question that has not ended.

    `laxity` is the smallest of its requests' (seconds, negative: late by the estimates): of one
    that waits, the time until its latest start; of one that runs, what was left when it began.
    None where the last events do not tell. `left` is the time until its deadline. `doing` names
    what happened to it last.
    """

    id: str
    question: str
    database: str
    tenant: str
    slo_class: str
    slo_seconds: float
    left: float
    laxity: float | None
    doing: str

    @property
    def at_risk(self) -> bool:
        """Whether its laxity is negative, or small for its SLO."""
        least = max(RISK_SECONDS, RISK_SHARE * self.slo_seconds)
        return self.left < RISK_SECONDS or (self.laxity is not None and self.laxity < least)


def most_urgent(
    inspector: QueueInspector, counts: ClusterCounts, per_queue: int
) -> list[WaitingRequest]:
    """The head of every sorted queue in which something waits, most urgent first."""
    busy = {pool.name for pool in counts.pools if pool.waiting}
    busy |= {each.record.own_queue for each in counts.instances if each.waiting}
    names = [name for name in counts.queues if name in busy and is_sorted(name)][:MOST_QUEUES]
    found = [
        request for name in names for request in inspector.most_urgent(name, per_queue, counts.now)
    ]
    return sorted(found, key=lambda request: (request.demoted, request.laxity))


class QuestionsReader:
    """Reads running questions; `client` answers in `str`."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def nearest(self, now: float, waiting: Iterable[WaitingRequest]) -> list[QuestionAtWork]:
        """The questions with the nearest deadlines and those that `waiting` belong to, the least
        laxity first. Two round trips."""
        nearest = self._client.zrange(self._keys.deadlines, 0, MOST_QUESTIONS - 1, withscores=True)
        deadlines = dict(cast("list[tuple[str, float]]", nearest))
        named = dict.fromkeys(request.task_id.partition("/")[0] for request in waiting)
        ids = list(dict.fromkeys([*deadlines, *named]))[: 2 * MOST_QUESTIONS]
        with self._client.pipeline(transaction=False) as pipeline:
            for name in ids:
                pipeline.hget(self._keys.workflow(name), "submission")
                pipeline.lrange(self._keys.trace(name), -LATEST_EVENTS, -1)
            answers = pipeline.execute()
        pairs = zip(ids, answers[::2], answers[1::2], strict=True)
        found = [_question(name, text, events, now) for name, text, events in pairs if text]
        return sorted(found, key=_urgency)


def _urgency(question: QuestionAtWork) -> float:
    return question.left if question.laxity is None else question.laxity


def _question(name: str, text: str, events: Sequence[str], now: float) -> QuestionAtWork:
    asked = cast("dict[str, Any]", json.loads(text))
    latest = [cast("dict[str, Any]", json.loads(event)) for event in events]
    return QuestionAtWork(
        id=name,
        question=str(asked.get("question", "")),
        database=str(asked.get("database") or ""),
        tenant=str(asked.get("tenant") or ""),
        slo_class=str(asked.get("slo_class") or ""),
        slo_seconds=float(asked["slo_seconds"]),
        left=float(asked["submitted_at"]) + float(asked["slo_seconds"]) - now,
        laxity=least_laxity(latest, now),
        doing=_doing(latest),
    )


def least_laxity(events: Iterable[Mapping[str, Any]], now: float) -> float | None:
    """The least laxity over the requests that `events` (oldest first) show waiting or running."""
    starts: dict[tuple[str, int], float] = {}
    claims: dict[tuple[str, int], float] = {}
    ended: set[str] = set()
    for event in events:
        node = str(event.get("node", ""))
        attempt = (node, int(event.get("attempt", 0)))
        if event["event"] == "sent" and "latest_start" in event:
            starts[attempt] = float(event["latest_start"])
        elif event["event"] == "claimed":
            claims[attempt] = float(event["t"])
        elif event["event"] in ("done", "failed", "dropped"):
            ended.add(node)
        elif event["event"] == "retried":
            starts.pop(attempt, None)
    found = [
        start - claims.get(attempt, now)
        for attempt, start in starts.items()
        if attempt[0] not in ended
    ]
    return min(found, default=None)


def _doing(events: Sequence[Mapping[str, Any]]) -> str:
    if not events:
        return ""
    last = events[-1]
    place = last.get("instance") or last.get("queue") or ""
    return " ".join(part for part in (last["event"], last.get("node", ""), place) if part)
