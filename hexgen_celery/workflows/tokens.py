"""How many tokens a text takes, before a server has counted them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

CHARACTERS_PER_TOKEN = 4
"""Wherever nobody counts. English and SQL come to about this with the usual vocabularies; synthetic
prompts and emulated instances go by it exactly, so that their lengths agree."""

EMULATED_FILLER = "[emulated filler, no model spoke] "
"""What an emulated instance says, over and over, where it has no recorded answer."""


class TokenCounter(Protocol):
    """Anything that says how long a text is, in tokens."""

    def count(self, text: str) -> int:
        """Tokens of `text` (0 for an empty one)."""
        ...


@dataclass(frozen=True, slots=True)
class RatioCounter:
    """Tokens by a fixed number of characters per token, rounded up."""

    characters_per_token: float = CHARACTERS_PER_TOKEN

    def __post_init__(self) -> None:
        if not self.characters_per_token > 0:
            raise ValueError(
                f"characters_per_token must be greater than 0, got {self.characters_per_token}"
            )

    def count(self, text: str) -> int:
        """Tokens of `text` (0 for an empty one)."""
        return math.ceil(len(text) / self.characters_per_token)
