"""How questions are answered: deadlines, the pipeline, its SQL, and whose they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from hexgen_celery.settings.section import (
    Name,
    Positive,
    PositiveInt,
    Section,
    Tokens,
    refuse_doubled,
)

DEFAULT_TENANT = "default"
"""Whose a question is that names no tenant; there whatever tenants are declared."""


class DeadlineSettings(Section):
    """What happens at a question's deadline, and the limits on submissions."""

    policy: Literal["best-effort", "strict"] = "best-effort"
    default_slo_seconds: Positive = 60.0
    max_slo_seconds: Positive = 86_400.0
    max_question_chars: PositiveInt = 10_000
    max_evidence_chars: PositiveInt = 20_000


class PipelineSettings(Section):
    """The text-to-sql workflow; each can be overridden per submission by the same name.

    `linking`: who finds a question's keywords, a `model` or `rules`; `auto` means rules where there
    are less than `linking_slo_seconds`. A schema of more than `schema_tokens` is not sent whole.
    `agreement`: how many equal results decide early, 0 for none; `auto` is what was learnt of the
    model. `degrade`: leave optional work out when the deadline comes near. `waves`: ask for
    only as many candidates at a time as could come to the agreement, which takes longer and spends
    less. `structured`: have answers that are JSON kept to their schema by the server.
    """

    candidates: Annotated[int, Field(ge=1, le=16)] = 3
    correction_rounds: Annotated[int, Field(ge=0, le=10)] = 2
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.7
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] = 7
    max_tokens: Tokens = 1024
    unit_tests: bool = True
    linking: Literal["auto", "model", "rules"] = "auto"
    linking_slo_seconds: Annotated[float, Field(ge=0)] = 5.0
    schema_tokens: Tokens = 24_000
    waves: bool = False
    agreement: Literal["auto"] | Annotated[int, Field(ge=0, le=16)] = "auto"
    degrade: bool = True
    structured: bool = False


class SqlSettings(Section):
    """Limits on the execution of a model's SQL. Seconds, rows, MiB.

    `user`: whom the sandboxes of an sql worker that runs as root run as.
    """

    time_limit_seconds: Positive = 30.0
    max_rows: PositiveInt = 1000
    max_result_bytes: PositiveInt = 4_000_000
    memory_mib: PositiveInt = 512
    processes: PositiveInt = 2
    user: str | None = None
    home: Path = Path(".hexgen/databases")


class SloClassSettings(Section):
    """A named SLO: the seconds that a question of this class may take."""

    name: Name
    seconds: Positive


class TenantSettings(Section):
    """Whose questions these are. The first class is for questions that name neither class nor SLO.

    No more than `max_in_flight` questions run at once; a further one is refused, not queued.
    """

    name: Name
    max_in_flight: PositiveInt | None = None
    classes: tuple[SloClassSettings, ...] = ()

    @field_validator("classes")
    @classmethod
    def _classes_are_unique(
        cls, classes: tuple[SloClassSettings, ...]
    ) -> tuple[SloClassSettings, ...]:
        refuse_doubled("class", [one.name for one in classes])
        return classes
