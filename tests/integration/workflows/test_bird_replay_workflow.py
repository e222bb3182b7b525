"""The text-to-sql workflow on real BIRD questions, with published predictions as the answers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pytest

from hexgen_celery.evaluation.bird import load_bird
from hexgen_celery.evaluation.predictions import read_predictions
from hexgen_celery.evaluation.questions import GoldQuestion
from hexgen_celery.evaluation.replay import CANDIDATE, ReplayShape, build_replay
from hexgen_celery.settings import Settings
from hexgen_celery.sql.descriptions import DIRECTORY_NAME, read_descriptions
from hexgen_celery.sql.execution import DatabaseFile, ExecuteRequest, ExecuteResult
from hexgen_celery.sql.metrics import execution_match, result_digest
from hexgen_celery.sql.profiling import profile_database
from hexgen_celery.sql.schema_prompt import schema_prompt
from hexgen_celery.workflows.definition import Answer, LlmCall, NodeSpec, SqlCall
from hexgen_celery.workflows.registry import load_definitions
from hexgen_celery.workflows.schema_text import SchemaText, delimited_schema
from hexgen_celery.workflows.tokens import RatioCounter
from stages.sql_answers import read_sql_answer
from tests.unit.workflows.memory_executor import Finished, MemoryExecutor, submission_of
from workers.sandbox_pool import SandboxPool

DATABASE = "superhero"
LIMIT = 40

pytestmark = [pytest.mark.data, pytest.mark.integration]


@dataclass
class Replay:
    """Answers LLM nodes from published predictions and runs SQL in real sandboxes."""

    directory: Path
    pool: SandboxPool
    results: dict[tuple[str, str], ExecuteResult] = field(default_factory=dict)
    used: Counter[str] = field(default_factory=Counter)

    @cached_property
    def file(self) -> DatabaseFile:
        return DatabaseFile(
            str(load_bird(self.directory, DATABASE, subset="mini").databases[DATABASE])
        )

    @cached_property
    def questions(self) -> tuple[GoldQuestion, ...]:
        return load_bird(self.directory, DATABASE, LIMIT, "mini").questions

    @cached_property
    def completions(self) -> dict[tuple[str, ...], str]:
        predictions = read_predictions(self.directory / "predictions")
        records = build_replay(self.questions, predictions, ReplayShape(3, 2))
        return {(r.question, r.stage, r.step, r.index): r.completion for r in records}

    def run_node(self, spec: NodeSpec) -> Finished:
        self.used[spec.step] += 1
        if isinstance(spec.call, SqlCall):
            if spec.call.op != "execute":
                return Finished({"values": [], "columns": [], "indexed": False})
            return Finished(self._summary(spec.call.sql))
        assert isinstance(spec.call, LlmCall)
        data = spec.call.metadata
        place = tuple(data[name] for name in ("question", "stage", "step", "index"))
        return Finished({"text": self.completions[place], "finish_reason": "stop"})

    def execute(self, sql: str) -> ExecuteResult:
        key = (DATABASE, sql)
        if key not in self.results:
            self.results[key] = self.pool.execute(ExecuteRequest(self.file, sql))
        return self.results[key]

    def first(self, question: GoldQuestion) -> str:
        """What the first candidate wrote at once."""
        return read_sql_answer(self.completions[(question.key, *CANDIDATE, "1")]).sql

    def is_right(self, question: GoldQuestion, sql: str) -> bool:
        """BIRD's execution accuracy for one question."""
        ours, gold = self.execute(sql), self.execute(question.gold)
        return ours.ok and gold.ok and execution_match(ours.rows, gold.rows)

    def _summary(self, sql: str) -> dict[str, object]:
        result = self.execute(sql)
        return {
            "status": result.status,
            "columns": list(result.columns),
            "row_count": result.row_count,
            "truncated": result.truncated,
            "empty": result.empty,
            "digest": result_digest(result.rows) if result.ok else "",
            "error": result.error,
        }


class BirdSchema:
    """The schema of the one database, described as in production."""

    def __init__(self, file: DatabaseFile) -> None:
        descriptions = read_descriptions(Path(file.path).parent / DIRECTORY_NAME)
        catalog = profile_database(file, DATABASE, descriptions)
        self._text = delimited_schema(schema_prompt(catalog), RatioCounter())

    def schema(self, database: str) -> SchemaText:
        assert database == DATABASE
        return self._text

    def narrowed(self, database: str, columns: Sequence[str], max_tokens: int) -> SchemaText:
        raise AssertionError("the whole schema fits")


@pytest.fixture
def replay(shared_data: Path) -> Iterator[Replay]:
    with SandboxPool(1) as pool:
        yield Replay(shared_data / "bird" / "dev", pool)


def answer_all(replay: Replay) -> dict[str, Answer]:
    definition = load_definitions(Settings(), BirdSchema(replay.file))["text_to_sql"]
    answers = {}
    for number, question in enumerate(replay.questions):
        submission = submission_of(
            "text_to_sql",
            question.question,
            evidence=question.evidence,
            database=DATABASE,
            workflow_id=f"wf-{number}",
            options={"question_key": question.key},
        )
        executor = MemoryExecutor(definition, submission, replay.run_node, random.Random(number))
        outcome = executor.run()
        assert isinstance(outcome, Answer), f"{question.key}: {outcome}"
        answers[question.key] = outcome
    return answers


def test_the_stages_together_beat_a_single_prediction(replay: Replay) -> None:
    answers = answer_all(replay)
    right = sum(replay.is_right(each, answers[each.key].sql) for each in replay.questions)
    alone = sum(replay.is_right(each, replay.first(each)) for each in replay.questions)
    assert len(answers) == LIMIT
    assert right > alone
    assert replay.used["revise"] > 0
    assert 0 < replay.used["choose"] < LIMIT, "the model is asked only when results differ"
    healed = [each for answer in answers.values() for each in answer.detail["candidates"]]
    assert any(each["healed"] for each in healed)
