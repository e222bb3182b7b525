"""A statement with what each part of it can see: what the fitting rules look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from hexgen_celery.sql.catalog import Column
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.checking.sources import Visible, visible_sources

E = TypeVar("E", bound=exp.Expr)


@dataclass(frozen=True, slots=True)
class Stored:
    """A column of a stored table that a reference means."""

    table: str
    column: Column


@dataclass(frozen=True, slots=True)
class Part:
    """One query of a statement, with the relations it sees."""

    scope: Scope
    visible: Visible
    names: SchemaNames

    def find(self, *kinds: type[E]) -> Iterator[E]:
        """The nodes of these kinds in this query, without those in queries inside it."""
        return self.scope.find_all(*kinds)

    def stored(self, reference: exp.Column) -> Stored | None:
        """The stored column that `reference` means, or None when that is not certain."""
        if reference.table:
            source = self.visible.named(reference.table)
            tables = [source.table] if source is not None else []
        else:
            tables = self._holders(reference.name)
        table = self.names.table(tables[0]) if len(tables) == 1 and tables[0] else None
        column = table.column(reference.name) if table is not None else None
        return Stored(table.name, column) if table is not None and column is not None else None

    def _holders(self, column: str) -> list[str]:
        """The tables behind the innermost relations that have, or may have, such a column."""
        for level in self.visible.levels:
            found = [source.table for source in level if source.has(column)]
            if found:
                return found
        return []


@dataclass(frozen=True, slots=True)
class Statement:
    """A sound statement: its text, its tree and its queries."""

    sql: str
    tree: exp.Expr
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, sql: str, tree: exp.Expr, names: SchemaNames) -> Statement:
        """`sql` with its queries; without any where their scopes cannot be told apart."""
        try:
            scopes = traverse_scope(tree)
            parts = tuple(Part(scope, visible_sources(scope, names), names) for scope in scopes)
        except (SqlglotError, RecursionError):
            parts = ()
        return cls(sql, tree, parts)


def span_of(node: exp.Expr) -> tuple[int, int] | None:
    """Where the node's own token begins and ends (exclusive); None where nobody noted it."""
    meta = node.meta
    return (meta["start"], meta["end"] + 1) if "start" in meta else None


def reach_of(node: exp.Expr) -> tuple[int, int] | None:
    """From the first to the end of the last token noted in the node or below it."""
    spans = [span for each in node.walk() if (span := span_of(each)) is not None]
    if not spans:
        return None
    return min(start for start, _ in spans), max(end for _, end in spans)
