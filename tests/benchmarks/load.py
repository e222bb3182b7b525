"""Open-loop load: submissions at a fixed rate, whatever becomes of them, and their latencies."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import redis

from hexgen_celery.evaluation.questions import GoldQuestion
from tests.benchmarks.bench_cluster import MODEL, BenchCluster

RESULT_CHANNEL = "celery-task-meta-"
ASK = "hexgen.ask"
PROMPT = "p" * 4000


def arrival_times(rate: float, count: int) -> list[float]:
    """Seconds from the start at which `count` evenly spaced requests are due."""
    return [number / rate for number in range(count)]


def _until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.perf_counter()))


async def direct_latencies(url: str, rate: float, count: int) -> list[float]:
    """Latencies (seconds) of a plain asyncio client that streams from the server itself."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": 64,
        "stream": True,
        "stream_options": {"include_usage": True},
    }

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

        async def one(due: float) -> float:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            sent = time.perf_counter()
            async with http.post(f"{url}/v1/chat/completions", json=body) as response:
                await response.read()
            return time.perf_counter() - sent

        start = time.perf_counter()
        return await asyncio.gather(*(one(start + due) for due in arrival_times(rate, count)))


@dataclass(slots=True)
class Ends:
    """When each question's result was published, and what it said."""

    at: dict[str, float] = field(default_factory=dict)
    metas: dict[str, dict[str, Any]] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def note(self, message: dict[str, Any]) -> None:
        """Take one message of the result channel."""
        now = time.perf_counter()
        meta = json.loads(message["data"])
        with self.changed:
            self.at[meta["task_id"]] = now
            self.metas[meta["task_id"]] = meta
            self.changed.notify_all()

    def wait_for(self, count: int, seconds: float) -> bool:
        """Wait until `count` questions have ended."""
        with self.changed:
            return self.changed.wait_for(lambda: len(self.at) >= count, seconds)

    def answered(self) -> list[str]:
        """The ids of the questions that were answered."""
        return [name for name, meta in self.metas.items() if meta["status"] == "SUCCESS"]


@contextmanager
def watching_ends(client: redis.Redis) -> Iterator[Ends]:
    """Hear of every result as soon as Celery's backend publishes it."""
    ends = Ends()
    with client.pubsub(ignore_subscribe_messages=True) as channel:  # type: ignore[no-untyped-call]
        channel.psubscribe(**{f"{RESULT_CHANNEL}*": ends.note})
        channel.get_message(timeout=1)
        thread = channel.run_in_thread(sleep_time=0.5, daemon=True)
        try:
            yield ends
        finally:
            thread.stop()
            thread.join()


def chat_payload() -> dict[str, Any]:
    """One chat request of a thousand tokens."""
    return {
        "question": PROMPT,
        "database": "",
        "workflow": "chat",
        "slo_seconds": 600,
        "options": {"max_tokens": 64},
    }


def question_payload(question: GoldQuestion, slo_seconds: float) -> dict[str, Any]:
    """One text-to-SQL question, whose recorded answers are found by its key."""
    return {
        "question": question.question,
        "database": question.database,
        "evidence": question.evidence,
        "slo_seconds": slo_seconds,
        "options": {"question_key": question.key},
    }


def submit_at_rate(
    cluster: BenchCluster, rate: float, count: int, payload: Callable[[], dict[str, Any]]
) -> dict[str, float]:
    """Send `count` questions in an open loop; the moment each was sent, by id."""
    sent: dict[str, float] = {}
    start = time.perf_counter()
    for due in arrival_times(rate, count):
        _until(start + due)
        name = str(uuid.uuid4())
        sent[name] = time.perf_counter()
        cluster.client.app.send_task(ASK, kwargs=payload(), task_id=name)
    return sent


def whole_path_latencies(cluster: BenchCluster, rate: float, count: int) -> list[float]:
    """Latencies (seconds) from sending `hexgen.ask` to hearing of its stored result."""
    with watching_ends(cluster.redis) as ends:
        sent = submit_at_rate(cluster, rate, count, chat_payload)
        if not ends.wait_for(count, seconds=120):
            raise RuntimeError(f"{count - len(ends.at)} of {count} questions have not ended")
        if len(ends.answered()) < count:
            raise RuntimeError(f"only {len(ends.answered())} of {count} were answered")
        return [ends.at[name] - moment for name, moment in sent.items()]
