"""Which relations, with which columns, each part of a statement can see.

Works on sqlglot's scopes of the tree as it was parsed, not on sqlglot's `qualify`: that one copies
and rewrites the tree (three times the cost) and stops at the first name it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from hexgen_celery.sql.checking.schema_names import SchemaNames

MAX_NESTING = 50


@dataclass(frozen=True, slots=True)
class Source:
    """A relation as a query names it.

    `table` is the stored table behind it, "" for a derived one. `columns` is None when nobody can
    tell them: of an unknown table, a table-valued function, a table with hidden columns.
    """

    alias: str
    table: str
    columns: tuple[str, ...] | None

    def has(self, column: str) -> bool:
        """Whether the relation has, or may have, a column of that name."""
        return self.columns is None or column.lower() in {name.lower() for name in self.columns}


@dataclass(frozen=True, slots=True)
class Visible:
    """What a column reference can mean: relations from the innermost query outwards."""

    levels: tuple[tuple[Source, ...], ...]

    def __iter__(self) -> Iterator[Source]:
        return (source for level in self.levels for source in level)

    def named(self, qualifier: str) -> Source | None:
        """The innermost relation that `qualifier` names."""
        wanted = qualifier.lower()
        return next((source for source in self if source.alias.lower() == wanted), None)

    def aliased(self, table: str) -> tuple[Source, ...]:
        """The relations that show the stored table `table` under whatever name."""
        return tuple(source for source in self if source.table.lower() == table.lower())


def visible_sources(scope: Scope, names: SchemaNames) -> Visible:
    """The relations visible in `scope`."""
    levels: list[tuple[Source, ...]] = []
    current: Scope | None = scope
    while current is not None and len(levels) < MAX_NESTING:
        levels.append(_sources_of(current, names))
        current = _enclosing(current)
    return Visible(tuple(levels))


def _enclosing(scope: Scope) -> Scope | None:
    """The query whose relations `scope` can also see. A query in FROM or WITH does not see its
    neighbours there, only what is around all of them."""
    if scope.is_cte:
        return None
    if scope.is_derived_table and scope.parent is not None:
        return scope.parent.parent
    return scope.parent


def _sources_of(scope: Scope, names: SchemaNames) -> tuple[Source, ...]:
    selected = scope.selected_sources
    return tuple(_source(alias, source, names) for alias, (_, source) in selected.items())


def _source(alias: str, source: exp.Expr | Scope, names: SchemaNames, depth: int = 0) -> Source:
    if isinstance(source, exp.Table):
        return _stored(alias, source, names)
    if isinstance(source, Scope):
        return Source(alias, "", output_columns(source, names, depth + 1))
    return Source(alias, "", None)


def _stored(alias: str, table: exp.Table, names: SchemaNames) -> Source:
    if not isinstance(table.this, exp.Identifier):
        return Source(alias, "", None)
    known = names.table(table.name)
    if known is not None and known.hidden_columns:
        return Source(alias, "", None)
    return Source(alias, table.name, names.columns(table.name))


def output_columns(scope: Scope, names: SchemaNames, depth: int = 0) -> tuple[str, ...] | None:
    """The columns that a query returns, or None when that cannot be told."""
    if scope.outer_columns:
        return tuple(scope.outer_columns)
    query = scope.expression
    if depth > MAX_NESTING or not isinstance(query, exp.Query):
        return None
    if isinstance(query, exp.SetOperation):
        parts = scope.set_operation_scopes
        return output_columns(parts[0], names, depth + 1) if parts else None
    found: list[str] = []
    for item in query.selects:
        columns = _item_columns(item, scope, names, depth)
        if columns is None:
            return None
        found += columns
    return tuple(found)


def _item_columns(
    item: exp.Expr, scope: Scope, names: SchemaNames, depth: int
) -> tuple[str, ...] | None:
    """The columns that one item of a SELECT list becomes."""
    if not item.is_star:
        # SQLite names an expression without an alias by its text, which nobody refers to.
        return (item.alias_or_name,) if item.alias_or_name else ()
    wanted = item.table.lower() if isinstance(item, exp.Column) else ""
    found: list[str] = []
    for alias, (_, source) in scope.selected_sources.items():
        if wanted and alias.lower() != wanted:
            continue
        columns = _source(alias, source, names, depth).columns
        if columns is None:
            return None
        found += columns
    return tuple(found)
