"""Questions through the whole stack, answered by a small real model. Its SQL is never asserted.

The model is tiny: what it writes is often not executable, which makes real corrections, and seldom
right, which nobody here asks for.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hexgen_celery.answers import Answer, Outcome
from hexgen_celery.api import Question
from hexgen_celery.cli.cluster_file import SMALL_MODEL_PIPELINE
from hexgen_celery.demo import build_demo
from hexgen_celery.evaluation.bird import load_bird
from tests.vllm.serving import BLOCK_TOKENS, ServedModel
from workers.vllm_cpu.pins import PROJECT

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

SLO_SECONDS = 600.0
DATABASE = "superhero"
ONE_BY_ONE = 2
AT_ONCE = 2
MOST_ROUNDS = 3
STAGES = {"schema_linking", "candidate_generation", "self_correction", "evaluation"}
OPTIONS = {
    **tomllib.loads(SMALL_MODEL_PIPELINE)["pipeline"],
    "linking": "model",
    "agreement": 0,
    "degrade": False,
}
"""The demo's own, with nothing left out."""


@dataclass(frozen=True)
class Asked:
    """How questions ended, in the order of asking; the first ones were asked one by one."""

    outcomes: Sequence[Outcome]

    @property
    def answered(self) -> list[Answer]:
        return [each for each in self.outcomes if isinstance(each, Answer)]

    def requests(self, outcome: Outcome) -> list[dict[str, Any]]:
        """What is recorded of a question's LLM requests that were completed."""
        stages = outcome.detail["stages"]
        return [each for each in stages if each["kind"] == "llm" and each["status"] == "done"]

    @property
    def enough(self) -> bool:
        """Whether two of three were answered and every stage was needed."""
        mostly = len(self.answered) >= len(self.outcomes) * 2 / 3
        return mostly and self.stages >= STAGES

    @property
    def stages(self) -> set[str]:
        """The stages of which a request was completed."""
        done = (each for outcome in self.outcomes for each in self.requests(outcome))
        return {each["stage"] for each in done if each["output_tokens"] > 0}


@pytest.fixture(scope="module")
def questions(small: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Question]:
    """BIRD's questions on superheroes where the data is, else those of the demo; easy ones first.

    Which are easy is told by the length of their gold SQL.
    """
    data = Path(os.environ.get("HEXGEN_DATA", PROJECT.parent / "shared" / "data")) / "bird" / "dev"
    if data.is_dir():
        bird = load_bird(data, DATABASE)
        database, gold = bird.databases[DATABASE], bird.questions
    else:
        demo = build_demo(tmp_path_factory.mktemp("demo"))
        database, gold = demo.database, demo.questions
    small.client.add_database(database)
    return (
        Question(one.question, one.database, SLO_SECONDS, one.evidence, options=OPTIONS)
        for one in sorted(gold, key=lambda one: len(one.gold))
    )


@pytest.fixture(scope="module")
def asked(small: ServedModel, questions: Iterator[Question]) -> Asked:
    """The first questions one by one, then a few together until enough was seen, good or bad."""
    outcomes = [small.client.ask_many([next(questions)])[0].outcome(SLO_SECONDS + 30)]
    for _ in range(ONE_BY_ONE - 1):
        outcomes.append(small.client.ask_many([next(questions)])[0].outcome(SLO_SECONDS + 30))
    for _ in range(MOST_ROUNDS):
        together = small.client.ask_many([next(questions) for _ in range(AT_ONCE)])
        outcomes += [pending.outcome(SLO_SECONDS + 30) for pending in together]
        if Asked(outcomes).enough:
            break
    return Asked(outcomes)


def test_most_questions_are_answered(asked: Asked) -> None:
    assert len(asked.outcomes) >= 3
    assert len(asked.answered) >= len(asked.outcomes) * 2 / 3
    assert all(answer.sql and answer.columns for answer in asked.answered)


def test_every_stage_was_done_by_the_model(asked: Asked) -> None:
    """With at least one correction of a statement that really failed."""
    assert asked.stages >= STAGES
    failed_first = [
        candidate
        for answer in asked.answered
        for candidate in answer.candidates
        if candidate["rounds"] > 0 and candidate["first"].get("status") != "ok"
    ]
    assert failed_first


def test_answers_that_are_json_kept_to_their_schema(asked: Asked) -> None:
    """What was not cut off at the limit of its tokens could be read."""
    linked = [
        (answer.detail["linked"]["note"], request["finish_reason"])
        for answer in asked.answered
        for request in asked.requests(answer)
        if request["stage"] == "schema_linking"
    ]
    assert linked
    assert all(note == "" for note, finish in linked if finish == "stop")


def test_the_second_question_on_a_database_finds_its_prompt_cached(asked: Asked) -> None:
    """Instructions, then the schema, then the question: what is shared comes first."""
    requests = asked.requests(asked.outcomes[1])
    cached = sum(each["cached_tokens"] for each in requests)
    assert all(each["cached_tokens"] % BLOCK_TOKENS == 0 for each in requests)
    assert cached >= 0.6 * sum(each["input_tokens"] for each in requests)


def test_the_engine_counted_those_hits_too(asked: Asked, small: ServedModel) -> None:
    with small.server() as server:
        lines = server.metrics().splitlines()
    hits = [line for line in lines if line.startswith("vllm:prefix_cache_hits_total")]
    reported = sum(
        each["cached_tokens"] for outcome in asked.outcomes for each in asked.requests(outcome)
    )
    assert sum(float(line.rpartition(" ")[2]) for line in hits) >= reported
