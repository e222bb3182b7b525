"""JSON schemas of the answers that stages read, for servers with structured output.

Only the plain words of JSON Schema: what a grammar cannot express makes a server refuse it all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}


def _object(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


LINKED = _object(keywords=_TEXTS, tables=_TEXTS, columns=_TEXTS)
TESTS = _object(tests=_TEXTS)


def choice_among(contenders: int) -> Schema:
    """The number of one of so many, with a reason."""
    return _object(choice={"enum": list(range(1, contenders + 1))}, reason=_TEXT)
