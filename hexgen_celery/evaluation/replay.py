"""Recorded completions for emulated instances, made from published predictions.

Where no model can run, what published models wrote for a question stands in for its answers: the
candidates come from different files, wrong and failing ones included, and corrections from the next
files. Which file plays which part depends on the seed and the question alone, never on gold. What
no published file holds (schema linking, unit tests, the choice) is answered neutrally and says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hexgen_celery.evaluation.predictions import Prediction, Predictions
from hexgen_celery.evaluation.questions import GoldQuestion

LINKING = ("schema_linking", "link")
CANDIDATE = ("candidate_generation", "candidate")
REVISION = ("self_correction", "revise")
UNIT_TESTS = ("evaluation", "unit_tests")
CHOICE = ("evaluation", "choose")

NEUTRAL_TESTS = ("The answer must return exactly what the question asks for.",)
NEUTRAL_REASON = "replayed: a neutral vote for the result that most candidates returned"

REPLAYED_STAGES = {
    "schema_linking": "neutral: the tables that the replayed candidates name",
    "candidate_generation": "published predictions, a different file for each candidate",
    "self_correction": "published predictions of the next files",
    "evaluation": "neutral: one fixed unit test, and a vote for the largest group of results",
}
"""What a report must say about answers that come from a replay."""


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    """One recorded answer; `index` is the candidate (`"2"`) or candidate and round (`"2.1"`)."""

    question: str
    stage: str
    step: str
    index: str
    completion: str

    def to_json(self) -> str:
        """The record as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class ReplayShape:
    """How many answers of each kind are recorded: candidates, and correction rounds for each."""

    candidates: int = 3
    rounds: int = 2

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise ValueError(f"candidates must be at least 1, got {self.candidates}")
        if self.rounds < 0:
            raise ValueError(f"rounds must not be negative, got {self.rounds}")


def build_replay(
    questions: Iterable[GoldQuestion],
    predictions: Predictions,
    shape: ReplayShape | None = None,
    seed: int | None = 7,
) -> Iterator[ReplayRecord]:
    """The records for every question that the predictions cover.

    `seed` None keeps the order of the files instead of shuffling them per question.
    """
    shape = shape or ReplayShape()
    for question in questions:
        found = predictions.of(question, seed)
        if found:
            yield from _question_records(question, found, shape)


def _question_records(
    question: GoldQuestion, found: Sequence[Prediction], shape: ReplayShape
) -> Iterator[ReplayRecord]:
    first = [found[place % len(found)] for place in range(shape.candidates)]
    yield linking_record(question.key, _tables(each.sql for each in first))
    for number, prediction in enumerate(first, 1):
        yield sql_record(question.key, CANDIDATE, str(number), fenced(prediction.sql))
        for turn in range(1, shape.rounds + 1):
            revised = found[_revision_place(number, turn, len(found), shape)]
            yield sql_record(question.key, REVISION, f"{number}.{turn}", fenced(revised.sql))
    yield from evaluation_records(question.key)


def _revision_place(number: int, turn: int, files: int, shape: ReplayShape) -> int:
    """Files that no candidate came from, in turn; with too few of them, the next candidate's."""
    spare = files - shape.candidates
    if spare <= 0:
        return (number - 1 + turn) % files
    return shape.candidates + ((number - 1) * shape.rounds + turn - 1) % spare


def fenced(sql: str) -> str:
    """SQL the way a model answers."""
    return f"```sql\n{sql.strip()}\n```"


def linking_record(question: str, tables: Sequence[str]) -> ReplayRecord:
    """An answer of schema linking that names `tables`."""
    answer = {"keywords": [], "tables": list(tables), "columns": []}
    return ReplayRecord(question, *LINKING, "1", json.dumps(answer, ensure_ascii=False))


def sql_record(question: str, place: tuple[str, str], index: str, completion: str) -> ReplayRecord:
    """An answer with SQL in it; `place` is stage and step."""
    return ReplayRecord(question, *place, index, completion)


def evaluation_records(question: str) -> Iterator[ReplayRecord]:
    """Neutral answers for the evaluation stage; the first result is the most frequent one."""
    yield ReplayRecord(question, *UNIT_TESTS, "1", json.dumps({"tests": NEUTRAL_TESTS}))
    choice = {"choice": 1, "reason": NEUTRAL_REASON}
    yield ReplayRecord(question, *CHOICE, "1", json.dumps(choice))


def _tables(statements: Iterable[str]) -> list[str]:
    """The tables that the statements name, each once, in the order in which they occur."""
    names = (name for sql in statements for name in tables_of(sql))
    return list(dict.fromkeys(names))


def tables_of(sql: str) -> list[str]:
    """The tables that a statement reads; none when it cannot be parsed."""
    try:
        tree = sqlglot.parse_one(sql, read="sqlite")
    except (SqlglotError, RecursionError):
        return []
    defined = {cte.alias for cte in tree.find_all(exp.CTE)}
    return [table.name for table in tree.find_all(exp.Table) if table.name not in defined]


def write_replay(records: Iterable[ReplayRecord], path: Path) -> int:
    """Write the records as JSON lines; returns how many there are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(record.to_json() + "\n")
            count += 1
    return count
