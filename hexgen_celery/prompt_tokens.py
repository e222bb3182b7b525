"""A prompt's length in its server's tokens. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hexgen_celery.workflows.definition import LlmCall


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """Tokens of the whole prompt, and the server's tokens for one of ours in its shared parts."""

    input_tokens: int
    per_counted: float


def prompt_tokens(
    call: LlmCall, part_counts: Sequence[int | None], token_factor: float
) -> PromptTokens:
    """The length of the prompt of `call`.

    `part_counts` are the server's own counts of its parts, None where it was not asked; those, and
    what follows the parts, go by our count (the length of the text) times `token_factor`.
    """
    ours = sum(part.tokens for part in call.parts)
    if not ours:
        return PromptTokens(round(token_factor * call.input_tokens), token_factor)
    parts = sum(
        token_factor * part.tokens if count is None else count
        for part, count in zip(call.parts, part_counts, strict=True)
    )
    rest = token_factor * max(0, call.input_tokens - ours)
    return PromptTokens(round(parts + rest), parts / ours)
