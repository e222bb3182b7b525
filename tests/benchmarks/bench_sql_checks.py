"""Checks before execution, on real questions: nothing right is refused, nothing misspelt passes.

Every gold statement of the shared BIRD and Spider questions goes the way of a model's statement on
an sql worker (check against the catalog, compile in the sandbox, execute in the sandbox) and is
compared with plain sqlite3 on a connection that stays open. Then one column of each gold statement
is misspelt (seeded: a letter swapped, left out, replaced or added) and checked. Last the catalog
and the value index of the largest database, built in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import sqlite3
import statistics
import string
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import sqlglot
from sqlglot import exp

from hexgen_celery.evaluation.bird import load_bird
from hexgen_celery.evaluation.questions import GoldQuestion, QuestionSet
from hexgen_celery.evaluation.scoring import EVALUATION_LIMITS
from hexgen_celery.evaluation.spider import load_spider
from hexgen_celery.sql.checking.diagnosis import diagnose
from hexgen_celery.sql.checking.nearness import suggestions_for
from hexgen_celery.sql.checking.schema_names import ROWID_NAMES, SchemaNames
from hexgen_celery.sql.descriptions import DIRECTORY_NAME, read_descriptions
from hexgen_celery.sql.execution import DatabaseFile, ExecuteRequest, ExecuteResult
from hexgen_celery.sql.profiling import profile_database
from hexgen_celery.sql.readonly import decode_text
from hexgen_celery.sql.value_index import build_value_index
from tests.benchmarks.rows import BenchmarkSkipped, Row, measured
from workers.sandbox_pool import SandboxPool
from workers.sql_checks import StatementChecks

DATA = Path(os.environ.get("HEXGEN_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
REPEATS = 3
THREADS = 2
SHORT_STATEMENTS = 500
SHORT_SECONDS = 0.005
LARGEST = "california_schools"
KIBIBYTES_PER_MB = 1024


@dataclass(frozen=True, slots=True)
class Database:
    """One database of the questions, opened plainly, with its names."""

    file: DatabaseFile
    names: SchemaNames
    plain: sqlite3.Connection
    questions: Sequence[GoldQuestion]


@dataclass(frozen=True, slots=True)
class GoldRun:
    """One gold statement: accepted with the same rows, seconds added, seconds plain SQLite took."""

    same: bool
    added: float
    plain: float


@dataclass(frozen=True, slots=True)
class Mutant:
    """A misspelt statement: refused, and whether the right name was the first suggestion."""

    refused: bool
    first: bool


def run() -> list[Row]:
    """Gold, mutants, throughput, catalog."""
    if not (DATA / "bird").is_dir():
        raise BenchmarkSkipped(f"the shared data is absent at {DATA}")
    sets = (load_bird(DATA / "bird" / "dev"), load_spider(DATA / "spider"))
    databases = [database for each in sets for database in _opened(each)]
    try:
        with SandboxPool(THREADS) as pool:
            gold = [[*_gold_runs(pool, databases)] for _ in range(REPEATS)]
            rates = [_rate(pool, databases, gold[0]) for _ in range(REPEATS)]
        mutants = [[*_mutants(databases, seed)] for seed in range(REPEATS)]
    finally:
        for database in databases:
            database.plain.close()
    return [*_gold_rows(gold, rates), *_mutant_rows(mutants), *_catalog_rows()]


def _gold_rows(gold: list[list[GoldRun]], rates: list[float]) -> Iterator[Row]:
    count = len(gold[0])
    same = [100 * statistics.fmean(each.same for each in runs) for runs in gold]
    added = [1e3 * statistics.median(each.added for each in runs) for runs in gold]
    yield measured(
        "sql.gold_accepted_percent", same, "%", bar=100, better="higher", statements=count
    )
    yield measured("sql.check_added_ms", added, "ms", bar=15, statements=count)
    yield measured(
        "sql.executions_per_second", rates, "1/s", bar=100, better="higher", threads=THREADS
    )


def _mutant_rows(mutants: list[list[Mutant]]) -> Iterator[Row]:
    for name, values, bar in (
        ("rejected", [[each.refused for each in found] for found in mutants], 99),
        ("first_suggestion", [[each.first for each in found] for found in mutants], 90),
    ):
        shares = [100 * statistics.fmean(each) for each in values]
        count = len(mutants[0])
        yield measured(
            f"sql.mutants_{name}_percent", shares, "%", bar=bar, better="higher", statements=count
        )


def _catalog_rows() -> Iterator[Row]:
    spawn = multiprocessing.get_context("spawn")
    figures = []
    for _ in range(REPEATS):
        with ProcessPoolExecutor(1, mp_context=spawn) as processes:
            figures.append(processes.submit(_catalog_cost).result())
    yield measured("sql.catalog_seconds", [seconds for seconds, _ in figures], "s", bar=20)
    yield measured("sql.catalog_rss_mb", [size for _, size in figures], "MB", bar=500)


def _opened(questions: QuestionSet) -> Iterator[Database]:
    for name, path in questions.databases.items():
        file = DatabaseFile(str(path))
        descriptions = read_descriptions(path.parent / DIRECTORY_NAME)
        names = SchemaNames(profile_database(file, name, descriptions))
        plain = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
        plain.text_factory = decode_text
        asked = [each for each in questions.questions if each.database == name]
        yield Database(file, names, plain, asked)


def _gold_runs(pool: SandboxPool, databases: Sequence[Database]) -> Iterator[GoldRun]:
    for database in databases:
        for question in database.questions:
            started = time.perf_counter()
            expected = [list(row) for row in database.plain.execute(question.gold)]
            between = time.perf_counter()
            result = _execute(pool, database, question.gold)
            ended = time.perf_counter()
            same = result.ok and list(result.rows) == expected
            yield GoldRun(same, (ended - between) - (between - started), between - started)


def _execute(pool: SandboxPool, database: Database, sql: str) -> ExecuteResult:
    """What an sql worker does with a statement; a repaired one counts as refused."""
    checked = StatementChecks(database.names, database.file, "", pool.execute).check(sql)
    if checked.refusal is not None or checked.prepared.sql != sql:
        return checked.refusal or ExecuteResult("rejected")
    return pool.execute(ExecuteRequest(database.file, sql, EVALUATION_LIMITS))


def _rate(pool: SandboxPool, databases: Sequence[Database], gold: Sequence[GoldRun]) -> float:
    """Short gold statements a second, checked and executed, from two threads."""
    every = [(database, each.gold) for database in databases for each in database.questions]
    short = [case for case, run in zip(every, gold, strict=True) if run.plain < SHORT_SECONDS]
    cases = [short[number % len(short)] for number in range(SHORT_STATEMENTS)]
    started = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        results = list(threads.map(lambda case: _execute(pool, *case), cases))
    assert all(result.ok for result in results)
    return len(cases) / (time.perf_counter() - started)


def _mutants(databases: Sequence[Database], seed: int) -> Iterator[Mutant]:
    for database in databases:
        for question in database.questions:
            mutant = _misspelt(question, database.names, random.Random(f"{seed}:{question.key}"))
            if mutant is not None:
                yield _judge(database, *mutant)


def _judge(database: Database, sql: str, start: int, right: str) -> Mutant:
    def compile_plainly(statement: str) -> str:
        try:
            with closing(database.plain.execute(f"EXPLAIN {statement}")):
                return ""
        except sqlite3.Error as error:
            return str(error)

    diagnosis = diagnose(sql, database.names, compile_plainly)
    found = next((each for each in diagnosis.unknown if each.start == start), None)
    suggested = suggestions_for(found, database.names) if found is not None else ()
    first = bool(suggested) and suggested[0].column.lower() == right.lower()
    return Mutant(not diagnosis.sound, first)


def _misspelt(
    question: GoldQuestion, names: SchemaNames, chance: random.Random
) -> tuple[str, int, str] | None:
    """The gold statement with one column misspelt, in double quotes where the gold has quotes or
    chance wants them; where it begins, and the right name. None when it names no column."""
    tree = sqlglot.parse_one(question.gold, read="sqlite")
    columns = [
        column
        for column in tree.find_all(exp.Column)
        if isinstance(column.this, exp.Identifier) and names.holders(column.name)
    ]
    if not columns:
        return None
    column = chance.choice(columns)
    wrong = _wrong_name(column.name, names, chance)
    start, end = column.this.meta["start"], column.this.meta["end"] + 1
    quotes = column.this.args.get("quoted") or chance.random() < 0.5
    written = f'"{wrong}"' if quotes else wrong
    return question.gold[:start] + written + question.gold[end:], start, column.name


def _wrong_name(name: str, names: SchemaNames, chance: random.Random) -> str:
    """`name` with one edit that makes it no column's name (SQLite's `oid` is one too)."""
    while True:
        wrong = _edited(name, chance)
        if not names.holders(wrong) and wrong.lower() not in ROWID_NAMES and wrong[0].isalpha():
            return wrong


def _edited(name: str, chance: random.Random) -> str:
    place, letter = chance.randrange(len(name)), chance.choice(string.ascii_lowercase)
    before, at, after = name[:place], name[place], name[place + 1 :]
    edits = [before + letter + after, before + letter + at + after]
    if after:
        edits.append(before + after[0] + at + after[1:])
    if len(name) > 3:
        edits.append(before + after)
    return chance.choice(edits)


def _catalog_cost() -> tuple[float, float]:
    """Seconds and peak memory (MB) of profiling and indexing the largest database."""
    path = load_bird(DATA / "bird" / "dev").databases[LARGEST]
    started = time.perf_counter()
    file = DatabaseFile(str(path))
    catalog = profile_database(file, LARGEST, read_descriptions(path.parent / DIRECTORY_NAME))
    with tempfile.TemporaryDirectory() as home:
        build_value_index(file, catalog, Path(home) / "some.values")
    seconds = time.perf_counter() - started
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIBIBYTES_PER_MB
