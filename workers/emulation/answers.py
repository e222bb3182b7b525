"""What an emulated instance says: the recorded answer, else filler of the asked length."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hexgen_celery.core.prefix import Prefix
from hexgen_celery.workflows.tokens import CHARACTERS_PER_TOKEN
from workers.emulation.api_error import ApiError
from workers.emulation.inference import BAD_REQUEST, InferenceRequest
from workers.emulation.replay import ReplayRecord, ReplayStore
from workers.emulation.tokens import (
    count_tokens,
    declared_prefix,
    filler,
    hashed_prefix,
)


class AnswerSource(StrEnum):
    """Where the text came from."""

    REPLAY = "replay"
    FILLER = "filler"


@dataclass(frozen=True, slots=True)
class PlannedAnswer:
    """An answer whose timing is still to come. Lengths in tokens."""

    text: str
    input_tokens: int
    output_tokens: int
    finish_reason: str
    source: AnswerSource
    prefix: Prefix


class AnswerPlanner:
    """Decides text and lengths of every answer.

    `filler_tokens` is the length of an answer that is neither recorded nor forced; `max_model_len`
    bounds prompt and answer together.
    """

    def __init__(self, replay: ReplayStore, *, max_model_len: int, filler_tokens: int) -> None:
        self._replay = replay
        self._max_model_len = max_model_len
        self._filler_tokens = filler_tokens

    def plan(self, request: InferenceRequest) -> PlannedAnswer:
        """The answer to `request`.

        Raises:
            ApiError: 400 when prompt or answer do not fit into the model's context.
        """
        record = self._replay.find(request.metadata)
        input_tokens = _input_tokens(request, record)
        limit = self._limit(request, input_tokens)
        text, tokens, source = self._words(request, record, limit)
        ended = request.forced_tokens is None and tokens <= limit
        return PlannedAnswer(
            text=text if tokens <= limit else text[: limit * CHARACTERS_PER_TOKEN],
            input_tokens=input_tokens,
            output_tokens=max(1, min(tokens, limit)),
            finish_reason="stop" if ended else "length",
            source=source,
            prefix=_prefix(request, input_tokens),
        )

    def _limit(self, request: InferenceRequest, input_tokens: int) -> int:
        room = self._max_model_len - input_tokens
        if room < 1:
            raise ApiError(
                BAD_REQUEST,
                f"This model's maximum context length is {self._max_model_len} tokens. However, "
                f"your request has {input_tokens} input tokens.",
                "input_tokens",
            )
        if request.max_tokens is None:
            return room
        if request.max_tokens > room:
            raise ApiError(
                BAD_REQUEST,
                f"'max_tokens' or 'max_completion_tokens' is too large: {request.max_tokens}. "
                f"This model's maximum context length is {self._max_model_len} tokens and your "
                f"request has {input_tokens} input tokens.",
                "max_tokens",
            )
        return max(1, request.max_tokens)

    def _words(
        self, request: InferenceRequest, record: ReplayRecord | None, limit: int
    ) -> tuple[str, int, AnswerSource]:
        if record is not None:
            text = _until_stop(record.completion, request.stop)
            tokens = record.output_tokens or count_tokens(len(text))
            return text, request.forced_tokens or tokens, AnswerSource.REPLAY
        tokens = request.forced_tokens or min(limit, max(self._filler_tokens, request.min_tokens))
        return filler(tokens), tokens, AnswerSource.FILLER


def _input_tokens(request: InferenceRequest, record: ReplayRecord | None) -> int:
    """What was recorded, else what the sender declares, else what the text amounts to."""
    if record is not None and record.input_tokens:
        return record.input_tokens
    declared = request.metadata.get("input_tokens", "")
    return int(declared) if declared.isdigit() and int(declared) else request.prompt_tokens


def _prefix(request: InferenceRequest, input_tokens: int) -> Prefix:
    declaration = request.metadata.get("prefix")
    if declaration is None:
        return hashed_prefix(request.texts)
    try:
        return declared_prefix(declaration, input_tokens)
    except ValueError as error:
        raise ApiError(BAD_REQUEST, f"metadata.prefix: {error}", "metadata") from error


def _until_stop(text: str, stops: tuple[str, ...]) -> str:
    ends = [end for end in (text.find(stop) for stop in stops) if end >= 0]
    return text[: min(ends)] if ends else text
