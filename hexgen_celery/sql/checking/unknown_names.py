"""Names in a statement that the database does not have.

SQLite says this too, but only of the first one, and not at all of `"misspelt column"`: a name in
double quotes that it does not know it silently takes for a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from hexgen_celery.sql.checking.schema_names import ROWID_NAMES, SchemaNames
from hexgen_celery.sql.checking.sources import Visible, output_columns, visible_sources


class Kind(StrEnum):
    """What sort of name is unknown."""

    COLUMN = "column"
    QUALIFIER = "qualifier"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class UnknownName:
    """One unknown name at `sql[start:end]`, quotes included.

    `qualifier` is what stands before the dot, "" without one. `text_allowed` says that the name is
    in double quotes, without a qualifier: SQLite reads it as a text. `as_value` says that it stands
    where a text would make sense (`City = "Fresno"`). `visible` is what a column could come from.
    """

    kind: Kind
    name: str
    start: int
    end: int
    qualifier: str = ""
    text_allowed: bool = False
    as_value: bool = False
    visible: Visible = field(default_factory=lambda: Visible(()))


def unknown_names(sql: str, tree: exp.Expr, names: SchemaNames) -> tuple[UnknownName, ...]:
    """Every name of `tree` (parsed from `sql`) that `names` does not have, in order of the text.

    None when the tree's scopes cannot be told apart; SQLite is then the only judge.
    """
    try:
        scopes = traverse_scope(tree)
        found = [each for scope in scopes for each in _in_scope(sql, scope, names)]
    except (SqlglotError, RecursionError):
        return ()
    return tuple(sorted(found, key=lambda each: each.start))


def _in_scope(sql: str, scope: Scope, names: SchemaNames) -> Iterator[UnknownName]:
    visible = visible_sources(scope, names)
    yield from _unknown_tables(scope, visible)
    aliases = _aliases(scope, names)
    if aliases is None:
        return
    for column in scope.find_all(exp.Column):
        unknown = _judge(sql, column, visible, aliases)
        if unknown is not None:
            yield unknown


def _unknown_tables(scope: Scope, visible: Visible) -> Iterator[UnknownName]:
    unknown = {source.alias for source in visible.levels[0] if source.table and not source.columns}
    for alias, (_, source) in scope.selected_sources.items():
        if alias in unknown and isinstance(source, exp.Table):
            start, end = _span(source.this)
            yield UnknownName(Kind.TABLE, source.name, start, end)


def _aliases(scope: Scope, names: SchemaNames) -> frozenset[str] | None:
    """Names that the SELECT list gives, which SQLite lets WHERE, GROUP BY and ORDER BY use.

    None when they cannot be told (a UNION of tables nobody knows).
    """
    query = scope.expression
    if isinstance(query, exp.SetOperation):
        columns = output_columns(scope, names)
        return None if columns is None else frozenset(map(str.lower, columns))
    selects = query.selects if isinstance(query, exp.Query) else []
    return frozenset(item.alias_or_name.lower() for item in selects if item.alias_or_name)


def _judge(
    sql: str, column: exp.Column, visible: Visible, aliases: frozenset[str]
) -> UnknownName | None:
    identifier = column.this
    if isinstance(identifier, exp.Star) or column.name.lower() in ROWID_NAMES:
        return None
    if column.table:
        return _judge_qualified(column, visible)
    if any(source.has(column.name) for source in visible):
        return None
    if column.name.lower() in aliases and not _in_select_list(column):
        return None
    start, end = _span(identifier)
    return UnknownName(
        Kind.COLUMN,
        column.name,
        start,
        end,
        text_allowed=sql[start : start + 1] == '"',
        as_value=stands_as_value(column),
        visible=visible,
    )


def _judge_qualified(column: exp.Column, visible: Visible) -> UnknownName | None:
    source = visible.named(column.table)
    if source is None:
        start, end = _span(column.args["table"])
        return UnknownName(
            Kind.QUALIFIER, column.table, start, end, qualifier=column.name, visible=visible
        )
    if source.has(column.name):
        return None
    start, end = _span(column.this)
    return UnknownName(
        Kind.COLUMN, column.name, start, end, qualifier=column.table, visible=visible
    )


def _span(identifier: exp.Expr) -> tuple[int, int]:
    """Where the identifier's token begins and ends (exclusive); (-1, -1) where nobody noted it."""
    meta = identifier.meta
    return (meta["start"], meta["end"] + 1) if "start" in meta else (-1, -1)


def _in_select_list(column: exp.Column) -> bool:
    child: exp.Expr = column
    while child.parent is not None and not isinstance(child.parent, exp.Select):
        child = child.parent
    return child.arg_key == "expressions"


def stands_as_value(column: exp.Column) -> bool:
    """Whether a text would make sense where `column` stands."""
    parent = column.parent
    if isinstance(parent, exp.In):
        return column is not parent.this
    if isinstance(parent, exp.Between | exp.Like | exp.Glob | exp.Escape):
        return column.arg_key != "this"
    if isinstance(parent, exp.Predicate) and isinstance(parent, exp.Binary):
        return column.arg_key == "expression" or _is_plain_column(parent.expression)
    if isinstance(parent, exp.AggFunc):
        return column.arg_key != "this"
    if isinstance(parent, exp.If):
        return column.arg_key != "this"
    if isinstance(parent, exp.Case):
        return column.arg_key == "default"
    return isinstance(parent, exp.Func | exp.DPipe | exp.Tuple)


def _is_plain_column(other: exp.Expr) -> bool:
    return isinstance(other, exp.Column) and not other.this.args.get("quoted")
