"""Reading JSON that a model wrote, which comes with thoughts, fences and prose around it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MAX_CHARACTERS = 100_000
MAX_STARTS = 50
_DECODER = json.JSONDecoder(strict=False)
_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.IGNORECASE | re.DOTALL)


def read_object(text: str, key: str) -> dict[str, Any] | None:
    """The last JSON object in `text` that has `key`, or None. Never raises.

    The last, because what comes before is reasoning; thoughts are left out altogether.
    """
    answer = _THOUGHT.sub(" ", text[-MAX_CHARACTERS:])
    found = [value for value in _objects(answer) if key in value]
    return found[-1] if found else None


def strings(value: object, limit: int) -> tuple[str, ...]:
    """The non-empty strings of a list, each once, at most `limit`; none for anything else."""
    if not isinstance(value, list):
        return ()
    texts = (item.strip() for item in value if isinstance(item, str))
    return tuple(dict.fromkeys(text for text in texts if text))[:limit]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects of the text, from left to right."""
    position = text.find("{")
    for _ in range(MAX_STARTS):
        if position < 0:
            return
        value, end = _decode(text, position)
        if isinstance(value, dict):
            yield value
        position = text.find("{", end)


def _decode(text: str, start: int) -> tuple[object, int]:
    """The value that begins at `start` and where it ends; a broken one ends after its brace."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start + 1
