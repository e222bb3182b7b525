"""Texts as prompt parts: named by their content, fenced where they come from outside."""

from __future__ import annotations

import hashlib
import re

HASH_CHARACTERS = 32
SCHEMA_TAG = "database_schema"
TAGS = (SCHEMA_TAG, "question", "evidence", "relevant", "sql", "outcome", "tests")
_ANY_TAG = re.compile(rf"<(\s*/?\s*(?:{'|'.join(TAGS)})\s*)>", re.IGNORECASE)
_CUT = " …(cut)"


def part_hash(text: str) -> str:
    """The name of a prompt part: the beginning of its SHA-256, the same on every machine."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_CHARACTERS]


def defused(content: str) -> str:
    """`content` with every fence of ours in it made harmless."""
    return _ANY_TAG.sub(r"‹\1›", content)


def capped(content: str, max_characters: int) -> str:
    """`content`, cut at `max_characters` with a mark that says so."""
    return content if len(content) <= max_characters else content[:max_characters] + _CUT


def fenced(tag: str, content: str, max_characters: int) -> str:
    """`content` from outside between `<tag>` and `</tag>`, which it can neither open nor close.

    Raises:
        ValueError: `tag` is not one of `TAGS`.
    """
    if tag not in TAGS:
        raise ValueError(f"{tag!r} is no fence; known: {', '.join(TAGS)}")
    return f"<{tag}>\n{defused(capped(content.strip(), max_characters))}\n</{tag}>\n"
