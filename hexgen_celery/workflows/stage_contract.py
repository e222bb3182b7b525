"""What the text-to-sql workflow asks of its stages, and the values that pass between them.

The workflow decides *which* requests are made and in what order; a stage decides what a request
says and what its answer means. Every method is pure, quick and tolerant: whatever a model wrote,
reading it returns a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class Stage(StrEnum):
    """Stage names; each is also a Celery task, `hexgen.<stage>`."""

    SCHEMA_LINKING = "schema_linking"
    CANDIDATE_GENERATION = "candidate_generation"
    SELF_CORRECTION = "self_correction"
    EVALUATION = "evaluation"
    EXECUTE_SQL = "execute_sql"
    CHAT = "chat"


@dataclass(frozen=True, slots=True)
class Question:
    """What the user asked, with the hint ("evidence") they gave, if any."""

    text: str
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request's text: `instructions` are the same for every question (shared by caches), the
    database's schema follows unless `with_schema` is false, and `tail` depends on the question.

    `answer_schema` is the JSON schema of an answer that is a JSON object; a server that can is made
    to keep to it where the option `structured` is on."""

    instructions: str
    tail: str
    with_schema: bool = True
    answer_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class LinkedValue:
    """A text stored in `table.column` that resembles a keyword of the question."""

    table: str
    column: str
    value: str
    keyword: str


@dataclass(frozen=True, slots=True)
class LinkedSchema:
    """What schema linking found; all empty means that nothing is singled out.

    `columns` are `table.column`. `note` says why the model's answer was not used, if so. `by_rules`
    means that no model was asked.
    """

    keywords: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    note: str = ""
    values: tuple[LinkedValue, ...] = ()
    by_rules: bool = False


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """The SQL of a model's answer. `problem` says why it must not be executed, if so."""

    sql: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One statement of a candidate and what executing it gave.

    `request` is the node that wrote it, `execution` the node that ran it ("" when it was refused
    before). `status` is an execution status (`ok`, `error`, `rejected`, `timeout`, `too_large`,
    `cancelled`), or `failed` when no worker could run it. `preview` are the first rows, if known.
    `sql` is what ran; where that was repaired by rules, `repairs` names them and `written` is the
    model's own text. `fits` names what fitted it to the question. `digest` stands for the rows as
    they are, `distinct_digest` for the different ones, `ordered_digest` for their order too.
    """

    request: str
    round: int
    sql: str
    status: str
    error: str = ""
    execution: str = ""
    columns: tuple[str, ...] = ()
    row_count: int = 0
    truncated: bool = False
    empty: bool = False
    digest: str = ""
    preview: tuple[tuple[Any, ...], ...] = ()
    repairs: tuple[str, ...] = ()
    written: str = ""
    fits: tuple[str, ...] = ()
    distinct_digest: str = ""
    ordered_digest: str = ""

    @property
    def ran(self) -> bool:
        """Whether it ran to its end."""
        return self.status == "ok"

    @property
    def useful(self) -> bool:
        """Whether it ran and returned something."""
        return self.ran and not self.empty


@dataclass(frozen=True, slots=True)
class Contender:
    """One of several different results to choose from, shown by its first candidate."""

    attempt: Attempt
    votes: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The model's choice: a contender's number, from 1, and its reason."""

    number: int
    reason: str


class SchemaLinkingStage(Protocol):
    """Finds the tables and columns a question needs."""

    def keywords(self, question: Question) -> tuple[str, ...]:
        """The question's keywords by rules, without a model."""
        ...

    def prompt(self, question: Question) -> Prompt:
        """The request's text."""
        ...

    def read(self, text: str) -> LinkedSchema:
        """What the answer names; an unreadable one gives an empty schema with a note."""
        ...


class CandidateGenerationStage(Protocol):
    """Writes SQL for a question."""

    def prompt(self, question: Question, linked: LinkedSchema, number: int) -> Prompt:
        """The text of candidate `number` (from 1)."""
        ...

    def read(self, text: str) -> SqlAnswer:
        """The answer's SQL, checked."""
        ...


class SelfCorrectionStage(Protocol):
    """Rewrites SQL that failed or returned nothing."""

    def prompt(
        self, question: Question, linked: LinkedSchema, history: Sequence[Attempt]
    ) -> Prompt:
        """The text of the next revision; `history` are this candidate's attempts, oldest first."""
        ...

    def read(self, text: str) -> SqlAnswer:
        """The answer's SQL, checked."""
        ...


class EvaluationStage(Protocol):
    """Chooses between candidates whose results differ."""

    def unit_tests_prompt(self, question: Question, contenders: Sequence[Contender]) -> Prompt:
        """The text that asks for tests telling the contenders apart."""
        ...

    def read_unit_tests(self, text: str) -> tuple[str, ...]:
        """The tests in the answer; none when it is unreadable."""
        ...

    def choice_prompt(
        self, question: Question, contenders: Sequence[Contender], tests: Sequence[str]
    ) -> Prompt:
        """The text that asks for a choice."""
        ...

    def read_choice(self, text: str, contenders: int) -> Choice | None:
        """The choice in the answer, within 1…`contenders`; None when it is unreadable."""
        ...


class Stages(Protocol):
    """The four stages together: what a `stages_module` builds."""

    @property
    def schema_linking(self) -> SchemaLinkingStage: ...

    @property
    def candidate_generation(self) -> CandidateGenerationStage: ...

    @property
    def self_correction(self) -> SelfCorrectionStage: ...

    @property
    def evaluation(self) -> EvaluationStage: ...
