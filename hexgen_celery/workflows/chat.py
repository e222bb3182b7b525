"""The chat workflow: one LLM request, for load that is not Text-to-SQL.

Options: `messages`, a list of `{"role", "content"}` of which the last is the user's (without it the
question is the only message); `max_tokens`, `temperature`, `seed`, `stop` (a list of texts).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hexgen_celery.errors import InvalidSubmission
from hexgen_celery.settings import PipelineSettings
from hexgen_celery.workflows.candidate_branches import error_text
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
from hexgen_celery.workflows.request_writer import Place, RequestWriter, request_metadata
from hexgen_celery.workflows.routing_options import RoutingOptions, without_routing
from hexgen_celery.workflows.stage_contract import Stage

NODE = "chat"
MAX_MESSAGES = 200
MAX_STOPS = 16


class Message(BaseModel):
    """One message of the conversation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["system", "user", "assistant"]
    content: str


class ChatOptions(BaseModel):
    """The options of one chat request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    messages: Annotated[tuple[Message, ...], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_tokens: Annotated[int, Field(gt=0)]
    temperature: Annotated[float, Field(ge=0, le=2)]
    seed: int | None = None
    stop: Annotated[tuple[str, ...], Field(max_length=MAX_STOPS)] = ()
    question_key: str = ""

    @model_validator(mode="after")
    def _ends_with_the_user(self) -> ChatOptions:
        if self.messages[-1].role != "user":
            raise ValueError('the last of `messages` must have the role "user"')
        return self


class Chat:
    """The definition; `pipeline` gives the defaults of `max_tokens` and `temperature`."""

    name = "chat"

    def __init__(self, writer: RequestWriter, pipeline: PipelineSettings) -> None:
        self._writer = writer
        self._pipeline = pipeline

    def begin(self, submission: Submission) -> Expansion:
        """The one request.

        Raises:
            InvalidSubmission: an option is unknown or impossible.
        """
        options = self._options(submission)
        texts = options.messages[:-1]
        parts = tuple(self._writer.part(text.content, text.role) for text in texts)
        call = self._call(submission, options, parts)
        node = NodeSpec(NODE, NodeKind.LLM, Stage.CHAT, NODE, call)
        stored = {part.hash: text.content for part, text in zip(parts, texts, strict=True)}
        return Expansion(add=(node,), parts=stored)

    def advance(self, view: WorkflowView, node: NodeState) -> Expansion:  # noqa: ARG002
        """The answer is whatever the model said."""
        if node.status is not NodeStatus.DONE or node.result is None:
            cause = error_text(node.error) or "the request was dropped"
            return Expansion(outcome=Failure(Stage.CHAT, cause))
        text = str(node.result.get("text", ""))
        finish = node.result.get("finish_reason")
        return Expansion(outcome=Answer(detail={"text": text, "finish_reason": finish}))

    def best_effort(self, view: WorkflowView) -> Answer | None:  # noqa: ARG002
        """There is nothing before the answer."""
        return None

    def _options(self, submission: Submission) -> ChatOptions:
        defaults = {
            "messages": [{"role": "user", "content": submission.question}],
            "max_tokens": self._pipeline.max_tokens,
            "temperature": self._pipeline.temperature,
        }
        try:
            return ChatOptions.model_validate({**defaults, **without_routing(submission.options)})
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"]) or "messages"
            known = (*ChatOptions.model_fields, *RoutingOptions.model_fields)
            raise InvalidSubmission(
                f"option {name!r}: {first['msg']}",
                field=name,
                hint=f"options of chat: {', '.join(known)}",
            ) from error

    def _call(
        self, submission: Submission, options: ChatOptions, parts: tuple[PartRef, ...]
    ) -> LlmCall:
        place = Place(NODE, Stage.CHAT, NODE, "1")
        tail = options.messages[-1].content
        tokens = self._writer.tokens(parts, tail)
        return LlmCall(
            parts=parts,
            tail=tail,
            input_tokens=tokens,
            output_tokens=self._writer.expected(submission, place, options.max_tokens),
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=options.seed,
            stop=options.stop,
            metadata=request_metadata(submission, place, parts, tokens, options.question_key),
        )
