"""Emulated tokens: four characters each, so that any text can be counted and any count made."""

from __future__ import annotations

from collections.abc import Iterable

from hexgen_celery.core.prefix import Prefix, PrefixPart
from hexgen_celery.workflows.tokens import CHARACTERS_PER_TOKEN, EMULATED_FILLER

BLOCK_TOKENS = 64
"""Grain at which prompts without declared parts are compared for shared beginnings."""


def count_tokens(characters: int) -> int:
    """Tokens of a text of `characters` characters, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def filler(tokens: int) -> str:
    """Text of exactly `tokens` tokens that says what it is."""
    length = tokens * CHARACTERS_PER_TOKEN
    return (EMULATED_FILLER * (length // len(EMULATED_FILLER) + 1))[:length]


def declared_prefix(declaration: str, input_tokens: int) -> Prefix:
    """The parts a request declares as `key:tokens,key:tokens`, as far as they fit the prompt.

    A key may hold colons itself. Raises ValueError when a size is not a whole number.
    """
    parts: list[PrefixPart] = []
    room = input_tokens
    for item in filter(None, declaration.split(",")):
        key, _, size = item.rpartition(":")
        tokens = min(int(size), room)
        if tokens > 0:
            parts.append(PrefixPart(key, tokens))
            room -= tokens
    return tuple(parts)


def hashed_prefix(texts: Iterable[str]) -> Prefix:
    """The whole blocks of a prompt's text, keyed by content.

    The keys hold within one process only, which is how long its cache lives.
    """
    text = "\n".join(texts)
    width = BLOCK_TOKENS * CHARACTERS_PER_TOKEN
    blocks = (text[start : start + width] for start in range(0, len(text) - width + 1, width))
    return tuple(PrefixPart(f"{hash(block):x}", BLOCK_TOKENS) for block in blocks)
