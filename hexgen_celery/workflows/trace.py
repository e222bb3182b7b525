"""The trace workflow: replays the token counts of a recorded question.

Option `line` is one line of a canonical workload: the question's requests with `id`, `stage`,
`step`, `after`, `input_tokens`, `output_tokens`, `template_tokens` and `schema_tokens`, and the
`database` whose schema the prompts held. Every request is made with a prompt of exactly the
recorded length: a template part shared by all requests of its step, a schema part shared by all
questions on its database, and a tail that no other request has. A request appears when those it
comes after are done, so that nothing is known of a correction before it is needed, and estimates
of output lengths come from the step, never from the record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hexgen_celery.errors import InvalidSubmission
from hexgen_celery.workflows.candidate_branches import Nodes, error_text
from hexgen_celery.workflows.definition import (
    Answer,
    Expansion,
    Failure,
    LlmCall,
    NodeKind,
    NodeSpec,
    NodeState,
    NodeStatus,
    PartRef,
    Submission,
    WorkflowView,
)
from hexgen_celery.workflows.output_lengths import OutputLengths
from hexgen_celery.workflows.request_writer import Place, request_metadata
from hexgen_celery.workflows.synthetic import text_of_tokens

LINE = "line"
MAX_REQUESTS = 1_000
MAX_TOKENS = 1_000_000

Count = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
PartName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]


class RecordedRequest(BaseModel):
    """One request of the record. Lengths in tokens; `input_tokens` counts the whole prompt."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: Annotated[int, Field(ge=0)]
    stage: Literal["schema_linking", "candidate_generation", "self_correction", "evaluation"]
    step: PartName
    after: tuple[int, ...] = ()
    input_tokens: Count
    output_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)]
    template_tokens: Count = 0
    schema_tokens: Count = 0

    @property
    def node(self) -> str:
        """The request's node."""
        return node_id(self.id)

    @property
    def tail_tokens(self) -> int:
        """What is left of the prompt behind template and schema."""
        return self.input_tokens - self.template_tokens - self.schema_tokens

    @model_validator(mode="after")
    def _parts_fit(self) -> RecordedRequest:
        if self.tail_tokens < 0:
            raise ValueError("template_tokens + schema_tokens exceed input_tokens")
        return self


class RecordedQuestion(BaseModel):
    """One line of a canonical workload; requests come behind those they depend on."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    database: PartName
    requests: Annotated[tuple[RecordedRequest, ...], Field(min_length=1, max_length=MAX_REQUESTS)]

    @model_validator(mode="after")
    def _is_a_dag(self) -> RecordedQuestion:
        seen: set[int] = set()
        for request in self.requests:
            if request.id in seen:
                raise ValueError(f"request {request.id} is recorded twice")
            if missing := sorted(set(request.after) - seen):
                raise ValueError(f"request {request.id} comes after {missing[0]}, not before it")
            seen.add(request.id)
        return self


class Trace:
    """The definition; `lengths` estimates outputs."""

    name = "trace"

    def __init__(self, lengths: OutputLengths) -> None:
        self._lengths = lengths

    def begin(self, submission: Submission) -> Expansion:
        """The requests that wait for nothing.

        Raises:
            InvalidSubmission: the option `line` is missing or is no workload line.
        """
        return Expansion(add=self._ready(submission, _recorded(submission), {}))

    def advance(self, view: WorkflowView, node: NodeState) -> Expansion:
        """The requests that waited for `node` alone; the answer when all are done."""
        if node.status is not NodeStatus.DONE:
            cause = error_text(node.error) or "the request was dropped"
            return Expansion(outcome=Failure(node.spec.stage, cause))
        question = _recorded(view.submission)
        if len(_done(view.nodes)) == len(question.requests):
            return Expansion(outcome=Answer(detail=_totals(view.nodes)))
        return Expansion(add=self._ready(view.submission, question, view.nodes))

    def best_effort(self, view: WorkflowView) -> Answer | None:  # noqa: ARG002
        """A replay that is not complete measures nothing."""
        return None

    def _ready(
        self, submission: Submission, question: RecordedQuestion, nodes: Nodes
    ) -> tuple[NodeSpec, ...]:
        done = _done(nodes)
        return tuple(
            self._node(submission, question.database, request)
            for request in question.requests
            if request.node not in nodes and done.issuperset(map(node_id, request.after))
        )

    def _node(self, submission: Submission, database: str, request: RecordedRequest) -> NodeSpec:
        after = tuple(map(node_id, request.after))
        place = Place(request.node, request.stage, request.step, str(request.id), after)
        parts = synthetic_parts(database, request)
        call = LlmCall(
            parts=parts,
            tail=text_of_tokens(f"{submission.workflow_id}/{request.node}", request.tail_tokens),
            input_tokens=request.input_tokens,
            output_tokens=self._lengths.expected(request.stage, request.step, database),
            max_tokens=request.output_tokens,
            metadata=request_metadata(submission, place, parts, request.input_tokens),
            forced_output_tokens=request.output_tokens,
        )
        return NodeSpec(place.id, NodeKind.LLM, place.stage, place.step, call, after)


def node_id(request: int) -> str:
    """The node of the recorded request with that id."""
    return f"request.{request}"


def synthetic_parts(database: str, request: RecordedRequest) -> tuple[PartRef, ...]:
    """The request's shared parts, made by whoever sends it; a part of no tokens is left out."""
    shared = (
        (f"template.{request.step}", request.template_tokens),
        (f"schema.{database}", request.schema_tokens),
    )
    return tuple(
        PartRef(f"syn:{key}:{tokens}", tokens, role="user") for key, tokens in shared if tokens
    )


def _recorded(submission: Submission) -> RecordedQuestion:
    line = submission.options.get(LINE)
    if line is None:
        raise InvalidSubmission(
            "the option 'line' is missing",
            field="options.line",
            hint="give one line of a canonical workload, as an object or as its text",
        )
    return _parsed(line if isinstance(line, str) else json.dumps(line))


# A line is read again at each of its requests' ends.
@lru_cache(maxsize=512)
def _parsed(line: str) -> RecordedQuestion:
    try:
        return RecordedQuestion.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(("options.line", *map(str, first["loc"])))
        raise InvalidSubmission(
            f"{place}: {first['msg']}", field=place, hint="give one line of a canonical workload"
        ) from error


def _done(nodes: Nodes) -> set[str]:
    return {name for name, state in nodes.items() if state.status is NodeStatus.DONE}


def _totals(nodes: Nodes) -> dict[str, Any]:
    results = [state.result or {} for state in nodes.values()]
    sums = {name: _sum(results, name) for name in ("input_tokens", "output_tokens")}
    return {"why": "every recorded request was replayed", "requests": len(results), **sums}


def _sum(results: Iterable[dict[str, Any]], name: str) -> int:
    return sum(int(result.get(name) or 0) for result in results)
