"""Schemas of registered databases as prompt parts, made once per change of a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hexgen_celery.sql.catalog import Catalog
from hexgen_celery.sql.catalog_subset import fitting_subset
from hexgen_celery.sql.schema_prompt import schema_prompt
from hexgen_celery.workflows.schema_text import SchemaText, delimited_schema
from hexgen_celery.workflows.tokens import TokenCounter


class Entry(Protocol):
    """What is registered about a database."""

    @property
    def schema_sha256(self) -> str:
        """Changes whenever the schema does."""
        ...


class Databases(Protocol):
    """The registry of databases; `hexgen_celery.sql.databases` has the one in use."""

    def entry(self, name: str) -> Entry:
        """The database's entry; raises `UnknownDatabase`."""
        ...

    def schema(self, name: str) -> str:
        """Its schema, described for a model; raises `UnknownDatabase`."""
        ...

    def catalog(self, name: str) -> Catalog:
        """What is known of its tables; raises `UnknownDatabase`."""
        ...


class RegisteredSchemas:
    """A `SchemaSource` over the registry: one small look-up per question, the text from memory."""

    def __init__(self, databases: Databases, counter: TokenCounter) -> None:
        self._databases = databases
        self._counter = counter
        self._known: dict[str, tuple[str, SchemaText]] = {}

    def schema(self, database: str) -> SchemaText:
        """The database's prompt part, the same for every question until the schema changes.

        Raises:
            UnknownDatabase: no such database is registered.
        """
        version = self._databases.entry(database).schema_sha256
        known = self._known.get(database)
        if known is not None and known[0] == version:
            return known[1]
        text = delimited_schema(self._databases.schema(database), self._counter)
        self._known[database] = (version, text)
        return text

    def narrowed(self, database: str, columns: Sequence[str], max_tokens: int) -> SchemaText:
        """A part of the schema with `columns` first, within about `max_tokens`.

        Raises:
            UnknownDatabase: no such database is registered.
        """

        def fits(part: Catalog) -> bool:
            return self._counter.count(schema_prompt(part)) <= max_tokens

        part = fitting_subset(self._databases.catalog(database), columns, fits)
        return delimited_schema(schema_prompt(part), self._counter)
