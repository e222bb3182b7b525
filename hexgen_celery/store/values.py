"""Values as every database takes them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

TOKENS = ("input_tokens", "output_tokens", "cached_tokens")

LOST = "lost"
"""Status of a question, in the store alone, that Redis lost before it ended."""

NOT_COUNTED = ("running", "cancelled")
"""Statuses of questions that say nothing about deadlines."""

_LARGEST = 2**31 - 1


def clean(value: Any) -> Any:
    """`value` with texts that are valid UTF-8 without NUL, and finite numbers (else None)."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {clean_text(str(name)): clean(content) for name, content in value.items()}
    if isinstance(value, list | tuple):
        return [clean(content) for content in value]
    return value


def clean_text(text: str) -> str:
    """`text` without what PostgreSQL (NUL) or UTF-8 (lone surrogates) cannot hold."""
    if "\0" in text:
        text = text.replace("\0", "�")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def count(value: object, default: int = 0) -> int:
    """A count that fits a column of 32 bits; `default` for what is no whole number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return default
    return max(-_LARGEST, min(_LARGEST, value))


def moment(value: object) -> float | None:
    """A time in Unix seconds; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
