"""Every prompt of a text-to-sql question as it would be sent, part by part, without sending it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hexgen_celery.workflows.prompt_parts import part_hash
from hexgen_celery.workflows.schema_text import SchemaText
from hexgen_celery.workflows.stage_contract import (
    Attempt,
    Contender,
    LinkedSchema,
    Prompt,
    Question,
    Stages,
)
from hexgen_celery.workflows.tokens import TokenCounter

SHARED_BY_ALL = "every question"
SHARED_BY_DATABASE = "every question on the database"
NOT_SHARED = "this question"

EXAMPLE_FAILED = Attempt(
    "candidate.1", 0, "SELECT nme FROM t", "rejected", "no such column: nme at SELECT nme FROM t"
)
EXAMPLE_RAN = Attempt(
    "candidate.2",
    0,
    "SELECT name FROM t",
    "ok",
    columns=("name",),
    row_count=1,
    preview=(("an example",),),
)


@dataclass(frozen=True, slots=True)
class PreviewPart:
    """One part of a prompt: its chat role, who shares it, its tokens, its hash and its text."""

    name: str
    role: str
    shared_by: str
    tokens: int
    hash: str
    text: str


@dataclass(frozen=True, slots=True)
class PromptPreview:
    """One prompt. `name` is stage and step."""

    name: str
    parts: tuple[PreviewPart, ...]

    @property
    def tokens(self) -> int:
        """Tokens of the whole prompt."""
        return sum(part.tokens for part in self.parts)

    @property
    def shared_tokens(self) -> int:
        """Tokens of the beginning that other questions on the database have too."""
        return sum(part.tokens for part in self.parts if part.shared_by != NOT_SHARED)


def preview_prompts(
    stages: Stages,
    question: Question,
    linked: LinkedSchema,
    schema: SchemaText,
    counter: TokenCounter,
    candidates: int,
) -> list[PromptPreview]:
    """The prompts of a question in the order in which they are sent.

    What depends on a model's earlier answers (a failed statement, differing results) is filled
    with an example.
    """
    prompts = _prompts(stages, question, linked, candidates)
    return [PromptPreview(name, _parts(prompt, schema, counter)) for name, prompt in prompts]


def _prompts(
    stages: Stages, question: Question, linked: LinkedSchema, candidates: int
) -> Iterator[tuple[str, Prompt]]:
    yield "schema_linking link", stages.schema_linking.prompt(question)
    for number in range(1, candidates + 1):
        prompt = stages.candidate_generation.prompt(question, linked, number)
        yield f"candidate_generation candidate {number}", prompt
    revise = stages.self_correction.prompt(question, linked, [EXAMPLE_FAILED])
    yield "self_correction revise (example)", revise
    contenders = [Contender(EXAMPLE_RAN, 2), Contender(EXAMPLE_RAN, 1)]
    tests = stages.evaluation.unit_tests_prompt(question, contenders)
    yield "evaluation unit_tests (example)", tests
    choose = stages.evaluation.choice_prompt(question, contenders, ["The answer must …"])
    yield "evaluation choose (example)", choose


def _parts(prompt: Prompt, schema: SchemaText, counter: TokenCounter) -> tuple[PreviewPart, ...]:
    texts = [("instructions", "system", SHARED_BY_ALL, prompt.instructions)]
    if prompt.with_schema:
        texts.append(("schema", "user", SHARED_BY_DATABASE, schema.text))
    texts.append(("question", "user", NOT_SHARED, prompt.tail))
    return tuple(
        PreviewPart(name, role, shared, counter.count(text), part_hash(text), text)
        for name, role, shared, text in texts
    )
