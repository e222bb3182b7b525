"""For whom a weight is tuned, and what of the past belongs to them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hexgen_celery.instances import InstanceRecord
from hexgen_celery.policies import scope
from hexgen_celery.tracing.history import RecordedQuestions
from hexgen_celery.workflows.definition import Submission
from hexgen_celery.workflows.routing_options import routing_options


@dataclass(frozen=True, slots=True)
class TuningScope:
    """The requests of `tenant` for `model`; either may be empty, which is all."""

    model: str = ""
    tenant: str = ""

    @property
    def name(self) -> str:
        """As policies and entries name it: `tenant@model`."""
        return scope(self.model, self.tenant)

    @property
    def wider(self) -> tuple[str, ...]:
        """The scopes whose policy is in force for it, the narrowest first."""
        names = (self.name, scope("", self.tenant), scope(self.model), scope())
        return tuple(dict.fromkeys(names))

    def served_by(self, records: Iterable[InstanceRecord]) -> list[InstanceRecord]:
        """The instances among `records` that its requests can go to."""
        return [record for record in records if self.model in ("", record.model)]

    def asked(self, submission: Submission) -> bool:
        """Whether the question is of the scope's tenant."""
        return self.tenant in ("", submission.tenant)


def scopes_of(records: Sequence[InstanceRecord], tenants: Iterable[str]) -> list[TuningScope]:
    """What is tuned on a cluster of `records` (those alive): the whole deployment, or each model
    where there are several; and in each the `tenants` that have a weight of their own."""
    models = sorted({record.model for record in records})
    named = models if len(models) > 1 else [""]
    return [TuningScope(model, tenant) for model in named for tenant in ("", *tenants)]


def for_model(recorded: RecordedQuestions, model: str) -> RecordedQuestions:
    """The questions that could only go to `model`, with those that named none; all for ""."""
    if not model:
        return recorded
    return replace(
        recorded,
        records=tuple(each for each in recorded.records if _goes_to(each.submission, model)),
        missed=tuple(each for each in recorded.missed if _goes_to(each, model)),
    )


def of_scope(recorded: RecordedQuestions, wanted: TuningScope) -> RecordedQuestions:
    """The questions of the scope's tenant."""
    return replace(
        recorded,
        records=tuple(each for each in recorded.records if wanted.asked(each.submission)),
        missed=tuple(each for each in recorded.missed if wanted.asked(each)),
    )


def _goes_to(submission: Submission, model: str) -> bool:
    return routing_options(submission.options).model in ("", model)
