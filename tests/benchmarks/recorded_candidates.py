"""Published predictions as candidates: each executed as the model wrote it, and as the sql worker
would run it (checked, repaired, fitted). Executions are kept under build/, keyed by hashes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hexgen_celery.evaluation.bird import load_bird
from hexgen_celery.evaluation.predictions import read_predictions
from hexgen_celery.evaluation.questions import GoldQuestion, QuestionSet
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.descriptions import read_descriptions
from hexgen_celery.sql.execution import DatabaseFile, ExecuteRequest, StatementLimits
from hexgen_celery.sql.metrics import distinct_digest, ordered_digest, result_digest
from hexgen_celery.sql.profiling import profile_database
from hexgen_celery.workflows.stage_contract import Attempt
from workers.sandbox_pool import SandboxPool
from workers.sql_checks import Checked, StatementChecks

DATA = Path(os.environ.get("HEXGEN_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
CACHE = Path("build/sql_selection/executions.jsonl")
LIMITS = StatementLimits(seconds=10.0, rows=500_000, result_bytes=32_000_000)
THREADS = 2


@dataclass(frozen=True, slots=True)
class Recorded:
    """One model's candidate: as it was written, and as it was mended (`rules` name the edits)."""

    source: str
    written: Attempt
    mended: Attempt
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """Candidates by question key, and what the gold statement returns (its distinct digest)."""

    questions: tuple[GoldQuestion, ...]
    mini: frozenset[str]
    candidates: Mapping[str, tuple[Recorded, ...]]
    gold: Mapping[str, str]


@dataclass(slots=True)
class Executions:
    """What statements return, kept on disk by a hash of the database file, limits and text."""

    pool: SandboxPool
    files: Mapping[str, Path]
    known: dict[str, dict[str, object]] = field(default_factory=dict)
    _file_hashes: dict[str, str] = field(default_factory=dict)

    def load(self) -> None:
        """Read what earlier runs kept."""
        if CACHE.is_file():
            for line in CACHE.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                self.known[entry.pop("key")] = entry

    def save(self) -> None:
        """Keep everything for later runs."""
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps({"key": key, **entry}) for key, entry in self.known.items())
        CACHE.write_text("\n".join(lines), encoding="utf-8")

    def attempt(self, database: str, sql: str) -> Attempt:
        """The statement with its outcome."""
        key = self._key(database, sql)
        if key not in self.known:
            self.known[key] = self._execute(database, sql)
        return Attempt("recorded", 0, sql, **self.known[key])  # type: ignore[arg-type]

    def _execute(self, database: str, sql: str) -> dict[str, object]:
        file = DatabaseFile(str(self.files[database]))
        result = self.pool.execute(ExecuteRequest(file, sql, LIMITS))
        return {
            "status": result.status,
            "error": result.error,
            "row_count": result.row_count,
            "truncated": result.truncated,
            "empty": result.empty,
            "digest": result_digest(result.rows) if result.ok else "",
            "distinct_digest": distinct_digest(result.rows) if result.ok else "",
            "ordered_digest": ordered_digest(result.rows) if result.ok else "",
        }

    def _key(self, database: str, sql: str) -> str:
        if database not in self._file_hashes:
            content = self.files[database].read_bytes()
            self._file_hashes[database] = hashlib.sha256(content).hexdigest()
        place = json.dumps([self._file_hashes[database], asdict(LIMITS), sql])
        return hashlib.sha256(place.encode("utf-8", "replace")).hexdigest()


def record() -> Recording:
    """Every prediction of the shared files, executed."""
    directory = DATA / "bird" / "dev"
    chosen = load_bird(directory)
    mini = load_bird(directory, subset="mini")
    with SandboxPool(THREADS) as pool:
        executions = Executions(pool, chosen.databases)
        executions.load()
        candidates = dict(_recorded(chosen, directory, executions))
        gold = {
            each.key: executions.attempt(each.database, each.gold).distinct_digest
            for each in chosen.questions
        }
        executions.save()
    return Recording(
        chosen.questions, frozenset(each.key for each in mini.questions), candidates, gold
    )


def _recorded(
    chosen: QuestionSet, directory: Path, executions: Executions
) -> Iterator[tuple[str, tuple[Recorded, ...]]]:
    predictions = read_predictions(directory / "predictions")
    checks = {name: _checks(path, executions.pool) for name, path in chosen.databases.items()}

    def one(question: GoldQuestion) -> tuple[str, tuple[Recorded, ...]]:
        check = checks[question.database]
        found = (
            _mended(each.source, each.sql, question, check, executions)
            for each in predictions.of(question)
        )
        return question.key, tuple(found)

    with ThreadPoolExecutor(THREADS) as threads:
        yield from threads.map(one, chosen.questions)


def _checks(path: Path, pool: SandboxPool) -> StatementChecks:
    file = DatabaseFile(str(path))
    catalog = profile_database(file, path.stem, read_descriptions(path))
    return StatementChecks(SchemaNames(catalog), file, "", pool.execute)


def _mended(
    source: str, sql: str, question: GoldQuestion, checks: StatementChecks, executions: Executions
) -> Recorded:
    checked = checks.check(sql, hint=question.evidence)
    written = executions.attempt(question.database, sql)
    return Recorded(
        source,
        written,
        _outcome(checked, question, executions),
        (*checked.prepared.rules, *checked.fitted.rules),
    )


def _outcome(checked: Checked, question: GoldQuestion, executions: Executions) -> Attempt:
    if checked.refusal is not None:
        return Attempt("recorded", 0, checked.prepared.sql, "rejected", checked.refusal.error)
    return executions.attempt(question.database, checked.fitted.sql)


def of_sources(recorded: Iterable[Recorded], sources: frozenset[str]) -> tuple[Recorded, ...]:
    """Those candidates that the named files hold."""
    return tuple(each for each in recorded if each.source in sources)
