"""The tables of the store. Times are Unix seconds, durations seconds, as everywhere.

A question has one row in `workflows`; an attempt at one of its nodes one in `requests` (an LLM
server's) or `executions` (an sql worker's), and one in `decisions` where a router chose its queue.
`submitted_at` of a question stands in each of its rows, because all are kept by it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import JSON, Double, ForeignKey, Index, MetaData, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column

Json = dict[str, Any]

_ID = Text()
_NAMES = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """All tables; constraints have the same names in every database."""

    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text(),
        float: Double(),
        Json: JSON(),
        list[str]: JSON(),
        list[Json]: JSON(),
    }


class Workflow(Base):
    """One question: as it was asked, and how it ended.

    `complete` is false where Redis had forgotten the details before they were recorded. `detail` is
    what the result told beside the columns here, the candidates and the rows.
    """

    __tablename__ = "workflows"
    __table_args__ = (
        Index("ix_workflows_submitted_at", "submitted_at"),
        Index("ix_workflows_deployment_finished_at", "deployment", "finished_at"),
    )

    id: Mapped[str] = mapped_column(_ID, primary_key=True)
    deployment: Mapped[str] = mapped_column(_ID)
    definition: Mapped[str] = mapped_column(_ID)
    status: Mapped[str] = mapped_column(_ID)
    question: Mapped[str]
    database: Mapped[str]
    evidence: Mapped[str]
    tenant: Mapped[str]
    slo_class: Mapped[str]
    slo_seconds: Mapped[float]
    submitted_at: Mapped[float]
    deadline: Mapped[float]
    started_at: Mapped[float | None]
    finished_at: Mapped[float | None]
    best_effort: Mapped[bool]
    deadline_met: Mapped[bool]
    sql: Mapped[str]
    stage: Mapped[str]
    cause: Mapped[str]
    input_tokens: Mapped[int]
    output_tokens: Mapped[int]
    cached_tokens: Mapped[int]
    options: Mapped[Json]
    detail: Mapped[Json]
    complete: Mapped[bool]
    recorded_at: Mapped[float]


class OfQuestion:
    """What belongs to one question, and goes with it."""

    @declared_attr
    @classmethod
    def workflow_id(cls) -> Mapped[str]:
        return mapped_column(
            _ID, ForeignKey("workflows.id", ondelete="CASCADE"), primary_key=True, sort_order=-30
        )

    submitted_at: Mapped[float] = mapped_column(index=True, sort_order=-10)


class OfAttempt(OfQuestion):
    """What belongs to one attempt at one node."""

    node: Mapped[str] = mapped_column(_ID, primary_key=True, sort_order=-20)
    attempt: Mapped[int] = mapped_column(primary_key=True, sort_order=-20)


class NodeAttempt(OfAttempt):
    """One attempt at a node of either kind.

    `position`: the node's among those of its question. `ending`: done, failed, retried, dropped, or
    "" while it goes on. `facts`: whatever else its end told.
    """

    position: Mapped[int]
    stage: Mapped[str] = mapped_column(_ID)
    step: Mapped[str] = mapped_column(_ID)
    after: Mapped[list[str]]
    ending: Mapped[str] = mapped_column(_ID)
    queue: Mapped[str]
    instance: Mapped[str]
    worker: Mapped[str]
    ready_at: Mapped[float | None]
    claimed_at: Mapped[float | None]
    ended_at: Mapped[float | None]
    facts: Mapped[Json]


class Request(NodeAttempt, Base):
    """One attempt at an LLM request.

    Tokens are the server's counts where it answered, else estimates; `template_tokens` and
    `schema_tokens` are those of the prompt's shared beginning.
    """

    __tablename__ = "requests"

    first_token_at: Mapped[float | None]
    input_tokens: Mapped[int]
    output_tokens: Mapped[int]
    cached_tokens: Mapped[int]
    template_tokens: Mapped[int]
    schema_tokens: Mapped[int]


class Execution(NodeAttempt, Base):
    """One attempt at a statement (or another operation) on a database.

    `status`: ok, error, rejected, timeout or too_large, where it came to one.
    """

    __tablename__ = "executions"

    operation: Mapped[str] = mapped_column(_ID)
    sql: Mapped[str]
    status: Mapped[str] = mapped_column(_ID)
    error: Mapped[str]
    row_count: Mapped[int | None]


class Candidate(OfQuestion, Base):
    """One candidate by its best attempt. `detail` is all that the answer told about it."""

    __tablename__ = "candidates"

    number: Mapped[int] = mapped_column(primary_key=True)
    chosen: Mapped[bool]
    sql: Mapped[str]
    status: Mapped[str] = mapped_column(_ID)
    error: Mapped[str]
    row_count: Mapped[int]
    rounds: Mapped[int]
    healed: Mapped[bool]
    votes: Mapped[int]
    detail: Mapped[Json]


class Decision(OfAttempt, Base):
    """Where a router sent an attempt, and by which numbers (`reasons`)."""

    __tablename__ = "decisions"

    sent_at: Mapped[float]
    queue: Mapped[str]
    instance: Mapped[str]
    policy: Mapped[str]
    reasons: Mapped[Json]


class AlphaChange(Base):
    """A dispatch policy that came into force, or that the tuner weighed.

    `source`: `tuner`, or `operator` for what was set by hand (`policy` empty: taken back). `scope`
    is `tenant@model`, either may be empty. `alpha` is the policy's weight, where it has one.
    """

    __tablename__ = "alpha_history"

    deployment: Mapped[str] = mapped_column(_ID, primary_key=True)
    at: Mapped[float] = mapped_column(primary_key=True)
    source: Mapped[str] = mapped_column(_ID, primary_key=True)
    scope: Mapped[str] = mapped_column(_ID, primary_key=True)
    policy: Mapped[str] = mapped_column(_ID)
    alpha: Mapped[float | None]
    detail: Mapped[Json]


class Tenant(Base):
    """A tenant and SLO class that questions came from, with what retention has removed of them.

    `pruned_…` count questions that had ended, were not cancelled, and are no longer in `workflows`,
    so that the sum is all there ever were.
    """

    __tablename__ = "tenants"

    deployment: Mapped[str] = mapped_column(_ID, primary_key=True)
    name: Mapped[str] = mapped_column(_ID, primary_key=True)
    slo_class: Mapped[str] = mapped_column(_ID, primary_key=True)
    first_seen_at: Mapped[float]
    last_seen_at: Mapped[float]
    pruned_questions: Mapped[int]
    pruned_answered: Mapped[int]
    pruned_met: Mapped[int]


PER_QUESTION: tuple[type[Base], ...] = (Request, Execution, Candidate, Decision)
"""The tables whose rows belong to one question."""
