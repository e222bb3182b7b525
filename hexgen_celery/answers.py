"""The end of a question as typed values, read from the JSON that the root task carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hexgen_celery.errors import HexgenError
from hexgen_celery.workflows.definition import Json

Cell = str | int | float | bool | None | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of all LLM requests of one question; `cached` is a part of `input`."""

    input: int = 0
    output: int = 0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answered question. Times are Unix seconds, durations seconds.

    `stages` holds one record per finished request, `candidates` the SQL that was considered and
    `why` the reason for the choice. `detail` is the whole JSON result, whose other keys depend on
    the workflow.
    """

    id: str
    question: str
    database: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    truncated: bool
    sql: str
    why: str
    candidates: tuple[Json, ...]
    stages: tuple[Json, ...]
    tokens: Tokens
    warnings: tuple[str, ...]
    submitted_at: float
    finished_at: float
    latency_seconds: float
    slo_seconds: float
    deadline: float
    deadline_met: bool
    best_effort: bool
    tenant: str
    detail: Json

    @classmethod
    def from_json(cls, result: Json) -> Answer:
        """Read the root task's result."""
        return cls(
            id=result["workflow_id"],
            question=result["question"],
            database=result["database"],
            columns=tuple(result["columns"]),
            rows=tuple(tuple(row) for row in result["rows"]),
            truncated=result["truncated"],
            sql=result["sql"],
            why=result.get("why", ""),
            candidates=tuple(result.get("candidates", ())),
            stages=tuple(result.get("stages", ())),
            tokens=Tokens(**result.get("tokens", {})),
            warnings=tuple(result.get("warnings", ())),
            submitted_at=result["submitted_at"],
            finished_at=result["finished_at"],
            latency_seconds=result["latency_seconds"],
            slo_seconds=result["slo_seconds"],
            deadline=result["deadline"],
            deadline_met=result["deadline_met"],
            best_effort=result.get("best_effort", False),
            tenant=result.get("tenant", ""),
            detail=result,
        )


class NoAnswer(HexgenError):
    """Raised when a question ended without an answer: failed, expired, cancelled or rejected.

    `status` says which; `stage`, `cause` and `last_sql` say where and why; `detail` is all the
    root task carried.
    """

    code = "no_answer"

    def __init__(self, workflow_id: str, status: str, detail: Mapping[str, Any]) -> None:
        self.workflow_id = workflow_id
        self.status = status
        self.stage = str(detail.get("stage") or "")
        self.cause = str(detail.get("cause") or detail.get("message") or "")
        self.last_sql = str(detail.get("last_sql") or "")
        self.detail = dict(detail)
        place = f" in {self.stage}" if self.stage else ""
        # The cause of a refusal ends with its hint, which the error adds by itself.
        cause = str(detail.get("message") or self.cause)
        super().__init__(
            f"question {workflow_id} {status}{place}{': ' if cause else ''}{cause}",
            hint=str(detail.get("hint") or ""),
            field=str(detail.get("field") or ""),
        )

    @property
    def latency_seconds(self) -> float | None:
        """Seconds from submission to the end, where the end recorded them."""
        value = self.detail.get("latency_seconds")
        return float(value) if value is not None else None


class AnswerPending(HexgenError):
    """Raised when a question had not ended within the time one was ready to wait."""

    code = "answer_pending"


Outcome = Answer | NoAnswer
