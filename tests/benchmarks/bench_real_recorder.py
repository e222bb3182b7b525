"""How many rows a second a recorder brings from a real Redis into a store.

The questions are of the size of Text-to-SQL ones: six LLM requests, three executions, a decision
with its reasons for each. Every run records all of them into a store that is empty.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, cast

import redis
from pydantic import SecretStr

from hexgen_celery.coordination import Coordinator
from hexgen_celery.keys import Keys
from hexgen_celery.outbox import OutboxEntry, Placement
from hexgen_celery.settings import BrokerSettings, Settings
from hexgen_celery.store.recording import Recording
from hexgen_celery.store.stream import RecordStream
from tests.benchmarks.rows import Row, measured
from tests.benchmarks.stores import engine_of, stores_of
from tests.integration.coordination.support import Dag, MemoryBroker, make_submission
from workers.embedded_redis import EmbeddedRedis
from workers.recorder import Recorder

QUESTIONS, RUNS, BAR = 300, 3, 2000
NODES: dict[str, list[str]] = {
    "link": [],
    **{f"c{n}": ["link"] for n in range(3)},
    **{f"x{n}": [f"c{n}"] for n in range(3)},
    "tests": ["x0", "x1", "x2"],
    "choose": ["tests"],
}
REASONS: dict[str, float | str] = {
    **{f"reason_{n}": n / 7 for n in range(12)},
    "policy": "alpha",
    "instance": "server-1",
    "considered": "server-1 0.31, server-2 0.42, server-3 0.77",
}
RESULT = {"input_tokens": 3100, "output_tokens": 120, "cached_tokens": 2600, "seconds": 1.4}


class RoutedBroker(MemoryBroker):
    """Gives every message a placement with reasons, as the router does."""

    def publish(self, entry: OutboxEntry) -> Placement:  # type: ignore[override]
        return Placement(str(super().publish(entry)), budget=2.0, reasons=REASONS)


def run() -> list[Row]:
    """Rows per second into SQLite and into PostgreSQL."""
    with tempfile.TemporaryDirectory() as home, EmbeddedRedis(Path(home)) as server:
        client = redis.Redis.from_url(server.url, decode_responses=True)
        settings = Settings(broker=BrokerSettings(url=SecretStr(server.url)))
        entries = _questions(client, settings)
        return [_measure(kind, client, settings, entries) for kind in ("sqlite", "postgres")]


def _questions(client: redis.Redis, settings: Settings) -> list[dict[Any, Any]]:
    """Answer the questions; the entries they leave in the stream."""
    broker = RoutedBroker()
    keys = Keys(settings.broker.prefix)
    coordinator = Coordinator(client, keys, settings, {"dag": Dag()}, broker)
    for _ in range(QUESTIONS):
        coordinator.start(make_submission(nodes=NODES))
        while broker.messages:
            entry = broker.take()
            coordinator.claim(entry.ref, worker="w", instance="server-1", queue="gpu.a.p")
            coordinator.first_token(entry.ref)
            coordinator.complete(entry.ref, {"text": "SELECT 1", **RESULT})
    entries = cast("list[tuple[str, dict[Any, Any]]]", client.xrange(keys.records))
    client.delete(keys.records)
    return [fields for _, fields in entries]


def _measure(
    kind: str, client: redis.Redis, settings: Settings, entries: list[dict[Any, Any]]
) -> Row:
    rates, rows = [], 0
    with stores_of(kind, settings) as new:
        for _ in range(RUNS):
            seconds, rows = _record(client, new(), entries)
            rates.append(rows / seconds)
    name = f"real.recorder_{kind}_records_per_second"
    notes = {"record": "a row", "rows_per_question": round(rows / QUESTIONS, 1)}
    questions = round(min(rates) * QUESTIONS / rows, 1)
    return measured(
        name, rates, "1/s", bar=BAR, better="higher", questions_per_second=questions, **notes
    )


def _record(
    client: redis.Redis, settings: Settings, entries: list[dict[Any, Any]]
) -> tuple[float, int]:
    """Seconds that recording all of them takes, and the rows that came of it."""
    keys = Keys(settings.broker.prefix)
    stream = RecordStream(client, keys, "bench")
    for fields in entries:
        client.xadd(keys.records, fields)
    with engine_of(settings) as engine:
        recorder = Recorder(Recording(client, keys, engine, stream), stream, settings)
        begun, rows = time.perf_counter(), 0
        while written := recorder.step(wait_seconds=0.01):
            rows += written
        seconds = time.perf_counter() - begun
    assert stream.backlog().waiting == 0
    client.delete(keys.records)
    return seconds, rows
