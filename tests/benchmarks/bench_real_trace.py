"""How long `hexgen trace ID` takes for a question that only the store knows, among 1,000,000
stored requests: finding and drawing in a process that runs, and the whole command."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from rich.console import Console
from sqlalchemy import Connection, Table, text

from hexgen_celery.settings import BrokerSettings, Settings
from hexgen_celery.store.models import PER_QUESTION, Base, Tenant, Workflow
from hexgen_celery.store.writing import StoreWriter
from tests.benchmarks.rows import Row, measured
from tests.benchmarks.stores import engine_of, stores_of
from tests.unit.store.question_samples import question
from workers.embedded_redis import EmbeddedRedis

REQUESTS, PER = 1_000_000, 10
QUESTIONS = REQUESTS // PER
BAR_MS, IN_PROCESS, COMMANDS, SEED = 200, 40, 9, 11
SAMPLE = "sample"


def run() -> list[Row]:
    """Both times, for both kinds of store."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as home, EmbeddedRedis(Path(home)) as server:
        settings = Settings(broker=BrokerSettings(url=SecretStr(server.url)))
        for kind in ("sqlite", "postgres"):
            with stores_of(kind, settings) as new:
                there = new()
                fill(there, QUESTIONS)
                rows += _measure(kind, there)
    start = [_milliseconds(_start) for _ in range(COMMANDS)]
    return [*rows, measured("real.command_start_ms", start, "ms", what="hexgen --version")]


def fill(settings: Settings, questions: int) -> None:
    """Store that many copies of one question, with all that belongs to it."""
    with engine_of(settings) as engine:
        StoreWriter(engine).write([question(SAMPLE, time.time() - 1e6, requests=PER)])
        with engine.begin() as connection:
            models: tuple[type[Base], ...] = (Workflow, *PER_QUESTION)
            for model in models:
                _multiply(connection, model, questions)
        with engine.connect() as connection:
            connection.execute(text("ANALYZE"))
            connection.commit()


def _multiply(connection: Connection, model: type[Base], questions: int) -> None:
    """Copy the sample's rows under the names `q1`, `q2`, …, each submitted a second later."""
    assert model is not Tenant
    table = model.__table__
    assert isinstance(table, Table)
    key = "id" if model is Workflow else "workflow_id"
    quoted = connection.dialect.identifier_preparer.quote
    names = [column.name for column in table.columns]
    made = {key: "'q' || n.i", "submitted_at": "submitted_at + n.i"}
    values = ", ".join(made.get(name, quoted(name)) for name in names)
    connection.execute(
        text(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count) "
            f"INSERT INTO {table.name} ({', '.join(map(quoted, names))}) "
            f"SELECT {values} FROM {table.name} CROSS JOIN n WHERE {key} = :sample"
            if connection.dialect.name == "postgresql"
            else f"INSERT INTO {table.name} ({', '.join(map(quoted, names))}) "
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count) "
            f"SELECT {values} FROM {table.name} CROSS JOIN n WHERE {key} = :sample"
        ),
        {"count": questions, "sample": SAMPLE},
    )


def _measure(kind: str, settings: Settings) -> list[Row]:
    chosen = random.Random(SEED)
    names = [f"q{chosen.randint(1, QUESTIONS)}" for _ in range(IN_PROCESS)]
    inside = [_milliseconds(lambda name=name: _show(settings, name)) for name in names]  # type: ignore[misc]
    whole = [_milliseconds(lambda name=name: _command(settings, name)) for name in names[:COMMANDS]]  # type: ignore[misc]
    name = f"real.trace_ms_{REQUESTS}_requests_{kind}"
    facts: dict[str, Any] = {"requests": REQUESTS, "questions": QUESTIONS}
    return [
        measured(name, whole, "ms", bar=BAR_MS, what="the command, with Python's start", **facts),
        measured(f"{name}_in_process", inside, "ms", bar=BAR_MS, what="find and draw", **facts),
    ]


def _milliseconds(action: Callable[[], None]) -> float:
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1000


def _show(settings: Settings, name: str) -> None:
    """What the command does, after its imports."""
    from hexgen_celery.cli import trace
    from hexgen_celery.store.lookup import find_trace
    from hexgen_celery.tracing.timeline import timeline_of

    found = find_trace(settings, name)
    assert len(found.events) > PER, name
    screen = Console(file=io.StringIO(), width=200)
    screen.print(trace.timeline_table(timeline_of(found.events)))


def _command(settings: Settings, name: str) -> None:
    assert settings.store.url is not None
    environment = {
        **os.environ,
        "HEXGEN_BROKER__URL": settings.broker.url.get_secret_value(),
        "HEXGEN_STORE__URL": settings.store.url.get_secret_value(),
    }
    command = [str(Path(sys.executable).parent / "hexgen"), "trace", name]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    assert "from the store" in done.stdout, done.stdout


def _start() -> None:
    command = [str(Path(sys.executable).parent / "hexgen"), "--version"]
    subprocess.run(command, capture_output=True, check=True)
