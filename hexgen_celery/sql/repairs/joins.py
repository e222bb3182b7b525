"""Repairs of queries that use a table's column without the table, or do not say which table's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.tokenizer_core import Token, TokenType

from hexgen_celery.sql.checking.complaints import Cause
from hexgen_celery.sql.checking.schema_names import Link, SchemaNames
from hexgen_celery.sql.checking.sources import Source, Visible, visible_sources
from hexgen_celery.sql.checking.unknown_names import Kind, UnknownName
from hexgen_celery.sql.identifiers import quote
from hexgen_celery.sql.repairs.calls import CLOSING, OPENING, tokens_of
from hexgen_celery.sql.repairs.edits import Case, Edit, Proposal
from hexgen_celery.sql.repairs.names import qualifier_span

FROM_ENDS = frozenset(
    {
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.ORDER_BY,
        TokenType.LIMIT,
        TokenType.WINDOW,
        TokenType.UNION,
        TokenType.INTERSECT,
        TokenType.EXCEPT,
        TokenType.SEMICOLON,
    }
)


def missing_joins(case: Case) -> Iterator[Proposal]:
    """A column of one table only, which is not in the query but linked to it in one way only."""
    for unknown in case.diagnosis.unknown:
        column = unknown.name if unknown.kind is Kind.COLUMN else unknown.qualifier
        proposal = _joined(case, unknown, column) if unknown.start >= 0 else None
        if proposal is not None:
            yield proposal


def _joined(case: Case, unknown: UnknownName, column: str) -> Proposal | None:
    holders = case.names.holders(column)
    level = unknown.visible.levels[0] if unknown.visible.levels else ()
    if len(holders) != 1 or any(source.table.lower() == holders[0].lower() for source in level):
        return None
    links = _links(level, holders[0], case.names)
    place = from_end(case.sql, unknown.start)
    if len(links) != 1 or place is None:
        return None
    alias, link = links[0]
    join = Edit(place, place, f" INNER JOIN {quote(link.other)} ON {_condition(alias, link)}")
    return Proposal("missing_join", (join, *_moved(case.sql, unknown, link.other)))


def _links(level: Sequence[Source], table: str, names: SchemaNames) -> list[tuple[str, Link]]:
    return [
        (source.alias, link)
        for source in level
        if source.table
        for link in dict.fromkeys(names.links_between(source.table, table))
    ]


def _condition(alias: str, link: Link) -> str:
    pairs = zip(link.columns, link.other_columns, strict=True)
    return " AND ".join(
        f"{quote(alias)}.{quote(own)} = {quote(link.other)}.{quote(other)}" for own, other in pairs
    )


def _moved(sql: str, unknown: UnknownName, table: str) -> tuple[Edit, ...]:
    """The column is the new table's, whatever stood before its dot."""
    if unknown.kind is Kind.QUALIFIER:
        return (Edit(unknown.start, unknown.end, quote(table)),)
    span = qualifier_span(sql, unknown) if unknown.qualifier else None
    return (Edit(*span, quote(table)),) if span else ()


def from_end(sql: str, position: int) -> int | None:
    """Where the FROM clause ends of the innermost SELECT around `position`."""
    tokens = tokens_of(sql)
    select = _select_around(tokens, position)
    if select is None:
        return None
    depth, inside = 0, False
    for token, previous in zip(tokens[select + 1 :], tokens[select:], strict=False):
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if depth < 0 or (depth == 0 and inside and token.token_type in FROM_ENDS):
            return previous.end + 1 if inside else None
        inside = inside or (depth == 0 and token.token_type is TokenType.FROM)
    return tokens[-1].end + 1 if inside else None


def _select_around(tokens: Sequence[Token], position: int) -> int | None:
    """The index of the SELECT whose own level `position` is on."""
    open_selects: list[int | None] = [None]
    for index, token in enumerate(tokens):
        if token.start >= position:
            break
        if token.token_type in OPENING:
            open_selects.append(None)
        elif token.token_type in CLOSING and len(open_selects) > 1:
            open_selects.pop()
        elif token.token_type is TokenType.SELECT:
            open_selects[-1] = index
    return next((index for index in reversed(open_selects) if index is not None), None)


def ambiguous_columns(case: Case) -> Iterator[Proposal]:
    """A column that several joined tables have, where the join makes them equal anyway."""
    complaint, tree = case.diagnosis.complaint, case.diagnosis.tree
    if complaint is None or complaint.cause is not Cause.AMBIGUOUS or tree is None:
        return
    edits = _qualified_everywhere(tree, complaint.subject, case.names)
    if edits:
        yield Proposal("ambiguous_column", edits)


def _qualified_everywhere(tree: exp.Expr, name: str, names: SchemaNames) -> tuple[Edit, ...]:
    try:
        scopes = traverse_scope(tree)
        return tuple(edit for scope in scopes for edit in _qualified(scope, name, names))
    except SqlglotError:
        # One name for two relations: nobody can tell what was meant.
        return ()


def _qualified(scope: Scope, name: str, names: SchemaNames) -> Iterator[Edit]:
    holders = _holders(visible_sources(scope, names), name)
    if len(holders) < 2 or not _all_equal(scope, holders, name):
        return
    for column in scope.find_all(exp.Column):
        start = column.this.meta.get("start")
        if column.name.lower() == name.lower() and not column.table and start is not None:
            yield Edit(start, start, f"{quote(holders[0])}.")


def _holders(visible: Visible, name: str) -> list[str]:
    return [source.alias for source in visible.levels[0] if source.columns and source.has(name)]


def _all_equal(scope: Scope, holders: Sequence[str], name: str) -> bool:
    """Whether conditions tie the column of the first holder to that of every other."""
    tied = {holders[0].lower()}
    pairs = [_tie(equal, name) for equal in scope.find_all(exp.EQ)]
    for _ in holders:
        tied.update(other for pair in pairs if pair & tied for other in pair)
    return tied >= {holder.lower() for holder in holders}


def _tie(equal: exp.EQ, name: str) -> set[str]:
    sides = (equal.this, equal.expression)
    named = [side for side in sides if isinstance(side, exp.Column)]
    same = [side.table.lower() for side in named if side.name.lower() == name.lower()]
    return set(same) if len(same) == 2 else set()
