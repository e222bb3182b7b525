"""The part of a prompt that describes a database: delimited, capped and named by its hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hexgen_celery.workflows.prompt_parts import SCHEMA_TAG, defused, part_hash
from hexgen_celery.workflows.tokens import TokenCounter

MAX_SCHEMA_CHARACTERS = 200_000
_CUT = "\n-- (the rest of the schema was left out: it is too long)"


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A database's schema as prompts hold it. `hash` is the hash of `text`."""

    hash: str
    text: str
    tokens: int


class SchemaSource(Protocol):
    """Where the schemas of registered databases come from."""

    def schema(self, database: str) -> SchemaText:
        """The database's prompt part, the same for every question until the file changes.

        Raises:
            UnknownDatabase: no such database is registered.
        """
        ...

    def narrowed(self, database: str, columns: Sequence[str], max_tokens: int) -> SchemaText:
        """A part of the schema with `columns` (`table.column`, or a table) first, within about
        `max_tokens`; the same for the same arguments until the file changes.

        Raises:
            UnknownDatabase: no such database is registered.
        """
        ...


def delimited_schema(
    description: str, counter: TokenCounter, max_characters: int = MAX_SCHEMA_CHARACTERS
) -> SchemaText:
    """The prompt part for a database's `description`, whose content nobody has vetted.

    Names, comments and sample values come from the database, so that they are fenced by a tag which
    they cannot close, and cut at `max_characters`.
    """
    content = defused(description)
    if len(content) > max_characters:
        content = content[:max_characters] + _CUT
    text = f"<{SCHEMA_TAG}>\n{content}\n</{SCHEMA_TAG}>\n\n"
    return SchemaText(part_hash(text), text, counter.count(text))
