"""How one question is to be answered: the deployment's settings, changed by the submission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from hexgen_celery.errors import InvalidSubmission
from hexgen_celery.settings import PipelineSettings
from hexgen_celery.workflows.definition import Json
from hexgen_celery.workflows.routing_options import RoutingOptions, without_routing

QUESTION_KEY = "question_key"
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """The effective options of one question.

    They are resolved once, when it begins, and kept with it: whichever process continues the
    question, and whatever that one's settings are, the shape of its DAG stays the same.
    """

    candidates: int
    correction_rounds: int
    temperature: float
    seed: int
    max_tokens: int
    unit_tests: bool
    linking: str = "auto"
    linking_slo_seconds: float = 0.0
    schema_tokens: int = 24_000
    agreement: int = 0
    degrade: bool = True
    waves: bool = False
    structured: bool = False
    question_key: str = ""

    def to_json(self) -> Json:
        """The options as plain values."""
        return asdict(self)


def resolve_options(
    options: Mapping[str, Any], defaults: PipelineSettings, learnt_agreement: int = 0
) -> PipelineOptions:
    """The submission's `options` over the deployment's `defaults`.

    `learnt_agreement` is what `agreement = "auto"` means.

    Raises:
        InvalidSubmission: an option is unknown or impossible; the error names it.
    """
    own = without_routing(options)
    own.pop(QUESTION_KEY, None)
    try:
        settings = PipelineSettings.model_validate({**defaults.model_dump(), **own})
    except ValidationError as error:
        raise _rejection(error) from error
    values = settings.model_dump(include=set(PipelineSettings.model_fields))
    if values["agreement"] == AUTO:
        values["agreement"] = learnt_agreement
    # No more than all candidates can agree.
    values["agreement"] = min(values["agreement"], values["candidates"])
    return PipelineOptions(**values, question_key=str(options.get(QUESTION_KEY, "")))


def _rejection(error: ValidationError) -> InvalidSubmission:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    unknown = first["type"] == "extra_forbidden"
    names = (*PipelineSettings.model_fields, QUESTION_KEY, *RoutingOptions.model_fields)
    return InvalidSubmission(
        f"unknown option {name!r}" if unknown else f"option {name!r}: {first['msg']}",
        field=name,
        hint=f"options of text_to_sql: {', '.join(names)}",
    )
