"""A question as a client asks it, and what it holds until the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hexgen_celery.answers import Answer, AnswerPending, NoAnswer, Outcome
from hexgen_celery.submission import TEXT_TO_SQL
from hexgen_celery.workflows.definition import Json


@dataclass(frozen=True, slots=True)
class Question:
    """One question to ask. `slo_seconds` None is the deployment's default.

    `slo_class` names one of the tenant's classes in place of seconds. With a tenant and neither,
    its first class counts, where it has any.

    `submitted_at` (Unix seconds) is when its clock starts; None is the moment of asking. `options`
    change the workflow's settings for this question, such as `candidates` or `correction_rounds`.
    """

    question: str
    database: str
    slo_seconds: float | None = None
    evidence: str = ""
    tenant: str | None = None
    submitted_at: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    workflow: str = TEXT_TO_SQL
    slo_class: str | None = None

    def payload(self, default_slo_seconds: float, now: float) -> Json:
        """The arguments of `hexgen.ask`."""
        by_class = self.slo_seconds is None and (self.slo_class or self.tenant)
        slo = default_slo_seconds if self.slo_seconds is None else self.slo_seconds
        return {
            "question": self.question,
            "database": self.database,
            "slo_seconds": None if by_class else slo,
            "evidence": self.evidence or None,
            "tenant": self.tenant,
            "submitted_at": now if self.submitted_at is None else self.submitted_at,
            "options": dict(self.options),
            "workflow": self.workflow,
            "slo_class": self.slo_class,
        }


class Waiter(Protocol):
    """The client that a question was asked through."""

    def completed(
        self, pendings: Iterable[Pending], *, timeout: float | None = None
    ) -> Iterator[tuple[Pending, Outcome]]:
        """Each question as it ends."""
        ...

    def cancel(self, workflow_id: str) -> bool:
        """Stop all work on a question."""
        ...


@dataclass(frozen=True, slots=True)
class Pending:
    """A question that was asked. `id` is the Celery task's and the workflow's."""

    id: str
    question: Question = field(compare=False)
    slo_seconds: float = field(compare=False)
    _client: Waiter = field(compare=False, repr=False)
    sent: Json | None = field(default=None, compare=False, repr=False)
    """What was sent, where it was sent by this very object's client."""

    def result(self, timeout: float | None = None) -> Answer:
        """Wait for the answer, up to `timeout` seconds (None: for ever).

        Raises:
            NoAnswer: the question failed, expired or was cancelled.
            AnswerPending: it had not ended in time.
        """
        outcome = self.outcome(timeout)
        if isinstance(outcome, NoAnswer):
            raise outcome
        return outcome

    def outcome(self, timeout: float | None = None) -> Outcome:
        """Wait for the end, whatever it is; raises AnswerPending only."""
        for _, outcome in self._client.completed([self], timeout=timeout):
            return outcome
        raise AnswerPending(
            f"question {self.id} has not ended within {timeout:g} s",
            hint=f"wait longer, or look at it with: hexgen status {self.id}",
        )

    def cancel(self) -> bool:
        """Stop all work on it; False when it had ended already."""
        return self._client.cancel(self.id)
