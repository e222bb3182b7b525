"""The sandbox on real questions: the same rows as plain sqlite3, and what it costs.

Every gold statement of the shared BIRD and Spider questions is checked, executed in the sandbox,
and executed by plain sqlite3 on a connection that stays open; the difference of the two times is
what checking and isolation add. Then as many statements as possible from two threads.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hexgen_celery.evaluation.bird import load_bird
from hexgen_celery.evaluation.questions import GoldQuestion, QuestionSet
from hexgen_celery.evaluation.scoring import EVALUATION_LIMITS
from hexgen_celery.evaluation.spider import load_spider
from hexgen_celery.sql.descriptions import read_descriptions
from hexgen_celery.sql.execution import DatabaseFile, ExecuteRequest
from hexgen_celery.sql.guard import check_statement
from hexgen_celery.sql.profiling import profile_database
from hexgen_celery.sql.readonly import decode_text
from tests.benchmarks.rows import BenchmarkSkipped, Row, measured
from workers.sandbox_pool import SandboxPool

DATA = Path(os.environ.get("HEXGEN_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
REPEATS = 3
THREADS = 2
SHORT_STATEMENTS = 1_000
LARGEST = "california_schools"
"""A database of 11 MB."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One gold statement: whether the rows agree, and seconds added over plain sqlite3."""

    same: bool
    added: float


def run() -> list[Row]:
    """Agreement, added time, throughput, and the time to profile 11 MB."""
    if not (DATA / "bird").is_dir():
        raise BenchmarkSkipped(f"the shared data is absent at {DATA}")
    sets = (load_bird(DATA / "bird" / "dev"), load_spider(DATA / "spider"))
    with SandboxPool(THREADS) as pool:
        rounds = [_compare_all(pool, sets) for _ in range(REPEATS)]
        rates = [_short_executions(pool, sets[0]) for _ in range(REPEATS)]
    same = [100 * statistics.fmean(each.same for each in found) for found in rounds]
    added = [1e3 * statistics.median(each.added for each in found) for found in rounds]
    count = len(rounds[0])
    profiling = [_profile(sets[0]) for _ in range(REPEATS)]
    return [
        measured("sql.gold_same_rows", same, "%", bar=100, better="higher", statements=count),
        measured("sql.added_ms_median", added, "ms", bar=15, statements=count),
        measured("sql.short_executions_per_second", rates, "1/s", bar=100, better="higher"),
        measured("sql.profile_11_mb_seconds", profiling, "s", bar=20),
    ]


def _compare_all(pool: SandboxPool, sets: Sequence[QuestionSet]) -> list[Comparison]:
    found = []
    for each in sets:
        for name, path in each.databases.items():
            questions = [question for question in each.questions if question.database == name]
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as plain:
                plain.text_factory = decode_text
                found += [_compare(pool, plain, path, question) for question in questions]
    return found


def _compare(
    pool: SandboxPool, plain: sqlite3.Connection, path: Path, question: GoldQuestion
) -> Comparison:
    started = time.perf_counter()
    expected = [list(row) for row in plain.execute(question.gold)]
    between = time.perf_counter()
    check_statement(question.gold)
    request = ExecuteRequest(DatabaseFile(str(path)), question.gold, EVALUATION_LIMITS)
    result = pool.execute(request)
    ended = time.perf_counter()
    same = result.ok and list(result.rows) == expected
    return Comparison(same, (ended - between) - (between - started))


def _short_executions(pool: SandboxPool, bird: QuestionSet) -> float:
    """Statements a second, each on another of BIRD's databases than the one before."""
    files = [DatabaseFile(str(path)) for path in bird.databases.values()]
    statement = "SELECT count(*) FROM sqlite_master"
    requests = [
        ExecuteRequest(files[number % len(files)], statement) for number in range(SHORT_STATEMENTS)
    ]
    started = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        results = list(threads.map(pool.execute, requests))
    assert all(result.ok for result in results)
    return SHORT_STATEMENTS / (time.perf_counter() - started)


def _profile(bird: QuestionSet) -> float:
    path = bird.databases[LARGEST]
    descriptions = read_descriptions(path.parent / "database_description")
    started = time.perf_counter()
    profile_database(DatabaseFile(str(path)), LARGEST, descriptions)
    return time.perf_counter() - started
