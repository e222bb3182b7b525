"""What a workload is made of."""

from __future__ import annotations

from dataclasses import dataclass

from hexgen_celery.core.prefix import Prefix, PrefixPart


@dataclass(frozen=True, slots=True)
class RecordedTimes:
    """When a recorded request ran, seconds on the trace's own axis; None where not recorded."""

    start: float | None = None
    first_token: float | None = None
    end: float | None = None


@dataclass(frozen=True, slots=True)
class WorkloadRequest:
    """One LLM request. `after` names the ids of its prerequisites; sizes in tokens.

    `template_tokens` of the input are the step's fixed instructions, the `schema_tokens` behind
    them the database's schema.
    """

    id: int
    stage: str
    step: str
    after: tuple[int, ...]
    input_tokens: int
    output_tokens: int
    template_tokens: int = 0
    schema_tokens: int = 0
    times: RecordedTimes = RecordedTimes()

    def prefix(self, database: str) -> Prefix:
        """The shareable beginning of the prompt over `database`: template, then schema."""
        template = PrefixPart(f"template:{self.step}", self.template_tokens)
        schema = PrefixPart(f"schema:{database}", self.schema_tokens)
        return tuple(part for part in (template, schema) if part.tokens)


@dataclass(frozen=True, slots=True)
class WorkloadQuestion:
    """One question and the requests it took, prerequisites first.

    `question` identifies equal questions; `split` is `train` or `test`; `arrival` (seconds) is
    known only where it was recorded, as are `tenant` and `slo_seconds`.
    """

    question: str
    database: str
    requests: tuple[WorkloadRequest, ...]
    split: str = "test"
    arrival: float | None = None
    tenant: str = ""
    slo_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """Questions in the order of their file."""

    name: str
    questions: tuple[WorkloadQuestion, ...]

    def part(self, split: str) -> tuple[WorkloadQuestion, ...]:
        """The questions of one split."""
        return tuple(question for question in self.questions if question.split == split)

    @property
    def recorded(self) -> bool:
        """Whether every question says when it arrived."""
        return all(question.arrival is not None for question in self.questions)
