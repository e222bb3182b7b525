"""The shared beginnings of prompts, which prefix caches reuse."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrefixPart:
    """One leading part of a prompt, identical wherever `key` is the same.

    A part's key identifies its content only; what a cache can reuse is a *chain* of parts from the
    very first token on, so the same schema behind another template is another cache entry.
    """

    key: str
    tokens: int


Prefix = tuple[PrefixPart, ...]


def prefix_tokens(prefix: Prefix) -> int:
    """Tokens of the whole shareable beginning."""
    return sum(part.tokens for part in prefix)
