"""What a workflow is: nodes, edges and estimates, revealed step by step.

A definition is pure: it sees a view of the workflow and answers with an expansion (nodes to add,
nodes no longer needed, perhaps the outcome). The coordinator applies the expansion in the same
script that records the completed node, and calls the definition again with a fresh view when
another completion came in between, so a definition must not have side effects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from hexgen_celery.core.prefix import Prefix, PrefixPart

Json = dict[str, Any]


class NodeKind(StrEnum):
    """Which kind of worker runs a node."""

    LLM = "llm"
    SQL = "sql"


class NodeStatus(StrEnum):
    """The life of a node; the last three are final."""

    WAITING = "waiting"
    READY = "ready"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"


class WorkflowStatus(StrEnum):
    """The life of a question; every status but `running` is final."""

    RUNNING = "running"
    ANSWERED = "answered"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Submission:
    """One question as accepted. Times are Unix seconds; `deadline` = submitted_at + slo_seconds.

    `options` are the per-submission settings of the workflow (already validated); `workflow` names
    the definition. `database` is empty where the workflow has none, `slo_class` where the SLO was
    given in seconds. `follow_ups` is what a Celery client wants to follow, in Celery's own words.
    """

    workflow_id: str
    workflow: str
    question: str
    database: str
    slo_seconds: float
    submitted_at: float
    deadline: float
    tenant: str = "default"
    evidence: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    slo_class: str = ""
    follow_ups: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartRef:
    """One leading part of a prompt by the hash of its text.

    `role` is the chat role it belongs to (neighbours with one role become one message). A hash of
    the form `syn:<key>:<tokens>` names a synthetic part, made by the LLM worker and stored nowhere.
    """

    hash: str
    tokens: int
    role: str = "system"


@dataclass(frozen=True, slots=True)
class LlmCall:
    """One LLM request: shared parts first, then what depends on the question (`tail`, user role).

    `output_tokens` is the estimate L̂_out; `max_tokens` the hard limit. `metadata` goes into the
    HTTP request (strings only); an emulated instance finds its replayed answer by it.
    `forced_output_tokens` asks an emulated instance (or `ignore_eos`) for exactly that length.
    """

    parts: tuple[PartRef, ...]
    tail: str
    input_tokens: int
    output_tokens: float
    max_tokens: int
    temperature: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    response_format: Json | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    forced_output_tokens: int | None = None

    @property
    def prefix(self) -> Prefix:
        """The shareable beginning, as the scheduler sees it."""
        return tuple(PrefixPart(part.hash, part.tokens) for part in self.parts)


@dataclass(frozen=True, slots=True)
class SqlCall:
    """One operation on a database file, run by an sql worker in the sandbox.

    `op` is `execute` (default) or another operation the sql worker registers.
    """

    database: str
    sql: str
    op: str = "execute"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    time_limit_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node of the DAG: what to run once every node of `after` is done.

    `id` is unique in its workflow (`candidate.2`, `correction.2.1`); `stage` names the Celery task
    (`hexgen.<stage>`); `step` is what output lengths are learnt by.
    """

    id: str
    kind: NodeKind
    stage: str
    step: str
    call: LlmCall | SqlCall
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node with what became of it. `result` is the small part of the outcome (no rows).

    For an LLM node: text, input_tokens, output_tokens, cached_tokens, finish_reason,
    first_token_seconds, seconds. For an execution: status (ok, error, rejected, timeout,
    too_large), columns, row_count, truncated, empty, preview (the first rows, cut), digest,
    ordered_digest, seconds, error.
    For a failed node `error` has `code`, `message`, `hint`.
    """

    spec: NodeSpec
    status: NodeStatus
    attempt: int = 1
    result: Json | None = None
    error: Json | None = None


@dataclass(frozen=True, slots=True)
class WorkflowView:
    """Everything a definition may decide by. `memory` is what it noted in earlier expansions."""

    submission: Submission
    nodes: Mapping[str, NodeState]
    memory: Json
    now: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The question is answered. Rows come from the bulk result of node `rows_from`, if any.

    `detail` holds candidates, why this one won, and whatever else the workflow explains.
    """

    rows_from: str | None = None
    sql: str = ""
    detail: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """The question cannot be answered: the stage, the cause and the last SQL that was tried."""

    stage: str
    cause: str
    last_sql: str = ""
    detail: Json = field(default_factory=dict)


Outcome = Answer | Failure


@dataclass(frozen=True, slots=True)
class Expansion:
    """What to do next. `drop` names nodes that are no longer needed (queued or running too).

    `parts` are prompt parts (hash → text) that the added nodes refer to; storing one twice is
    harmless. `memory` replaces the keys it names.
    """

    add: tuple[NodeSpec, ...] = ()
    drop: tuple[str, ...] = ()
    outcome: Outcome | None = None
    parts: Mapping[str, str] = field(default_factory=dict)
    memory: Json = field(default_factory=dict)


class Definition(Protocol):
    """A workflow. Methods are quick and change nothing; besides their arguments they read only what
    is the same for every process (files read at start, the registered databases)."""

    name: str

    def begin(self, submission: Submission) -> Expansion:
        """The first nodes. Raises InvalidSubmission for options it cannot serve."""
        ...

    def advance(self, view: WorkflowView, node: NodeState) -> Expansion:
        """`node` has just become DONE or FAILED (for good), as the view shows; say what follows."""
        ...

    def best_effort(self, view: WorkflowView) -> Answer | None:
        """The best answer there is at the deadline, or None."""
        ...
