"""From a prompt to an LLM node: parts in cache order, token counts, sampling and metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hexgen_celery.workflows.definition import (
    Expansion,
    Json,
    LlmCall,
    NodeKind,
    NodeSpec,
    PartRef,
    Submission,
)
from hexgen_celery.workflows.output_lengths import OutputLengths
from hexgen_celery.workflows.prompt_parts import part_hash
from hexgen_celery.workflows.stage_contract import Prompt
from hexgen_celery.workflows.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request stands in its workflow.

    `index` tells equal steps apart: "2" for the second candidate, "2.1" for its first revision.
    """

    id: str
    stage: str
    step: str
    index: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the model samples: limit in tokens, temperature, seed, and whether it must keep to the
    schema of an answer that has one."""

    max_tokens: int
    temperature: float = 0.0
    seed: int | None = None
    structured: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """A node to add, with the texts of the prompt parts it refers to (hash → text)."""

    spec: NodeSpec
    parts: Mapping[str, str] = field(default_factory=dict)


def expansion_of(planned: Iterable[Planned], memory: Json | None = None) -> Expansion:
    """The expansion that adds the planned nodes."""
    nodes = tuple(planned)
    parts = {digest: text for node in nodes for digest, text in node.parts.items()}
    return Expansion(add=tuple(node.spec for node in nodes), parts=parts, memory=memory or {})


class RequestWriter:
    """Makes LLM nodes whose prompts begin with what the most questions share."""

    def __init__(self, counter: TokenCounter, lengths: OutputLengths) -> None:
        self._counter = counter
        self._lengths = lengths

    def write(
        self,
        submission: Submission,
        place: Place,
        prompt: Prompt,
        sampling: Sampling,
        *,
        schema: PartRef | None = None,
        question_key: str = "",
    ) -> Planned:
        """The node for `prompt`: instructions, `schema` where the prompt wants it, tail."""
        instructions = self.part(prompt.instructions)
        parts = (instructions, schema) if schema and prompt.with_schema else (instructions,)
        tokens = self.tokens(parts, prompt.tail)
        call = LlmCall(
            parts=parts,
            tail=prompt.tail,
            input_tokens=tokens,
            output_tokens=self.expected(submission, place, sampling.max_tokens),
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            seed=sampling.seed,
            response_format=_response_format(prompt, place) if sampling.structured else None,
            metadata=request_metadata(submission, place, parts, tokens, question_key),
        )
        spec = NodeSpec(place.id, NodeKind.LLM, place.stage, place.step, call, place.after)
        return Planned(spec, {instructions.hash: prompt.instructions})

    def part(self, text: str, role: str = "system") -> PartRef:
        """A reference to `text` as a prompt part."""
        return PartRef(part_hash(text), self._counter.count(text), role)

    def tokens(self, parts: tuple[PartRef, ...], tail: str) -> int:
        """Tokens of a whole prompt."""
        return sum(part.tokens for part in parts) + self._counter.count(tail)

    def expected(self, submission: Submission, place: Place, limit: int) -> float:
        """Tokens the answer is expected to have, which is at most `limit`."""
        return min(self.expected_step(place.step, submission.database, place.stage), float(limit))

    def expected_step(self, step: str, database: str, stage: str = "") -> float:
        """Tokens the answer to such a step is expected to have."""
        return self._lengths.expected(stage, step, database)


def _response_format(prompt: Prompt, place: Place) -> Json | None:
    """OpenAI's way to ask for an answer that keeps to a JSON schema."""
    if prompt.answer_schema is None:
        return None
    named = {"name": place.step, "schema": dict(prompt.answer_schema), "strict": True}
    return {"type": "json_schema", "json_schema": named}


def request_metadata(
    submission: Submission,
    place: Place,
    parts: tuple[PartRef, ...],
    input_tokens: int,
    question_key: str = "",
) -> dict[str, str]:
    """What travels with the HTTP request: its place, and its prefix as `hash:tokens,…`."""
    return {
        "question": question_key,
        "stage": place.stage,
        "step": place.step,
        "index": place.index,
        "workflow": submission.workflow_id,
        "node": place.id,
        "prefix": ",".join(f"{part.hash}:{part.tokens}" for part in parts),
        "input_tokens": str(input_tokens),
    }
