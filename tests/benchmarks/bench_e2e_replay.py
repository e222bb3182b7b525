"""Five hundred replayed questions at once: all answered, alike, and accepted without delay.

Real BIRD questions whose answers are published models' SQL, wrong and failing ones included (the
demo's questions where BIRD is absent). Each is first asked alone, then all together; both times the
rows must be the same. The servers answer at once, so that everything else is under full load.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hexgen_celery.demo import build_demo
from hexgen_celery.evaluation.bird import load_bird
from hexgen_celery.evaluation.predictions import read_predictions
from hexgen_celery.evaluation.questions import GoldQuestion
from hexgen_celery.evaluation.replay import build_replay, write_replay
from tests.benchmarks.bench_cluster import BenchCluster, bench_cluster
from tests.benchmarks.load import ASK, question_payload, watching_ends
from tests.benchmarks.rows import Row, measured

TOGETHER = 500
SLO_SECONDS = 600.0
DATA = Path(os.environ.get("HEXGEN_DATA", "../shared/data"))
ONE_BY_ONE = 4
"""Questions under way at a time when each is to be hardly disturbed by others."""


@dataclass(frozen=True, slots=True)
class Material:
    """What is asked, over which databases, and where the answers come from."""

    source: str
    questions: tuple[GoldQuestion, ...]
    databases: tuple[Path, ...]
    replay: Path


def run() -> list[Row]:
    """Rows: share answered, share with the rows of the run alone, and the delay of receipt."""
    with tempfile.TemporaryDirectory(prefix="hexgen-replay-") as directory:
        material = _material(Path(directory))
        with bench_cluster(0.0, replay=material.replay) as cluster:
            for database in material.databases:
                cluster.client.add_database(database)
            return _compare(cluster, material)


def _material(directory: Path) -> Material:
    bird = DATA / "bird" / "dev"
    if not bird.is_dir():
        demo = build_demo(directory)
        return Material("demo", demo.questions, (demo.database,), demo.replay)
    chosen = load_bird(bird)
    predictions = read_predictions(bird / "predictions")
    questions = predictions.covered(chosen.questions)
    replay = directory / "replay.jsonl"
    write_replay(build_replay(questions, predictions), replay)
    return Material("BIRD dev", questions, tuple(chosen.databases.values()), replay)


def _compare(cluster: BenchCluster, material: Material) -> list[Row]:
    questions = material.questions
    repeated = (questions * (1 + TOGETHER // len(questions)))[:TOGETHER]
    _ask(cluster, questions[:ONE_BY_ONE])
    alone: dict[str, Any] = {}
    for start in range(0, len(questions), ONE_BY_ONE):
        few = questions[start : start + ONE_BY_ONE]
        alone |= dict(zip((each.key for each in few), _ask(cluster, few)[0], strict=True))
    started = time.perf_counter()
    together, delays = _ask(cluster, repeated)
    seconds = time.perf_counter() - started
    answered = [answer for answer in together if answer is not None]
    same = [
        answer == alone[question.key] for question, answer in zip(repeated, together, strict=True)
    ]
    notes = {"source": material.source, "questions": TOGETHER, "seconds": round(seconds, 1)}
    p99 = statistics.quantiles(delays, n=100)[-1] * 1e3
    share = len(answered) / TOGETHER * 100
    alike = sum(same) / TOGETHER * 100
    return [
        measured("e2e.replayed_answered_percent", [share], "%", bar=99, better="higher", **notes),
        measured("e2e.replayed_same_rows_percent", [alike], "%", bar=99, better="higher", **notes),
        measured(
            "e2e.receipt_delay_p99_ms", [p99], "ms", bar=250, median=statistics.median(delays) * 1e3
        ),
    ]


def _ask(
    cluster: BenchCluster, questions: Sequence[GoldQuestion]
) -> tuple[list[tuple[Any, Any] | None], list[float]]:
    """Columns and rows of each question (None unanswered), and seconds until each was accepted."""
    with watching_ends(cluster.redis) as ends:
        sent = {}
        for question in questions:
            name = str(uuid.uuid4())
            sent[name] = time.time()
            payload = question_payload(question, SLO_SECONDS)
            cluster.client.app.send_task(ASK, kwargs=payload, task_id=name)
        ends.wait_for(len(questions), SLO_SECONDS)
    delays = [cluster.client.trace(name)[0]["t"] - moment for name, moment in sent.items()]
    return [_rows(ends.metas.get(name)) for name in sent], delays


def _rows(meta: dict[str, Any] | None) -> tuple[Any, Any] | None:
    if meta is None or meta["status"] != "SUCCESS":
        return None
    return meta["result"]["columns"], meta["result"]["rows"]
