"""Columns that the hint names one by one, which the statement glues into one text.

`first_name || ' ' || last_name` where the hint says "full name refers to first_name, last_name".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from hexgen_celery.sql.fitting.select_list import Span, item_spans
from hexgen_celery.sql.fitting.statement import Statement, reach_of
from hexgen_celery.sql.repairs.edits import Edit, Proposal

RULE = "named_columns"
_SEPARATOR = re.compile(r"[\s,;-]*")


def named_columns(statement: Statement, hint: str) -> Iterator[Proposal]:
    """Items of the outermost SELECT list taken apart, where `hint` names their columns."""
    spans = item_spans(statement.sql, statement.tree)
    tree = statement.tree
    selects = tree.selects if isinstance(tree, exp.Select) and not _by_number(tree) else []
    edits = [
        edit
        for item, span in zip(selects, spans, strict=False)
        for edit in _apart(statement, item, span, hint)
    ]
    if edits:
        yield Proposal(RULE, tuple(edits))


def _apart(statement: Statement, item: exp.Expr, span: Span, hint: str) -> list[Edit]:
    columns = _glued(item.unalias())
    if columns is None or len(columns) < 2:
        return []
    if not all(_names(hint, column.name) for column in columns):
        return []
    if any(ordered.args.get("desc") for ordered in _uses(statement.tree, "order", item.alias)):
        return []
    reaches = [reach for column in columns if (reach := reach_of(column)) is not None]
    listed = ", ".join(statement.sql[slice(*reach)] for reach in reaches)
    return [Edit(*span, listed), *_references(statement.tree, item.alias, listed)]


def _glued(node: exp.Expr) -> list[exp.Column] | None:
    """The columns of a chain of `||` whose other parts only separate them; None for others."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return [node]
    if isinstance(node, exp.Literal) and node.is_string and _SEPARATOR.fullmatch(node.name):
        return []
    if not isinstance(node, exp.DPipe):
        return None
    left, right = _glued(node.this), _glued(node.expression)
    return None if left is None or right is None else [*left, *right]


def _names(hint: str, column: str) -> bool:
    """Whether the hint names the column, as a word of its own."""
    pattern = rf"(?<!\w){re.escape(column)}(?!\w)"
    return bool(column) and re.search(pattern, hint, re.IGNORECASE) is not None


def _by_number(tree: exp.Select) -> bool:
    """Whether GROUP BY or ORDER BY counts the items, so that none may be taken apart."""
    clauses = (tree.args.get(name) for name in ("group", "order"))
    items = [item for clause in clauses if clause is not None for item in clause.expressions]
    return any(isinstance(item.unnest(), exp.Literal) for item in map(_bare, items))


def _bare(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Ordered) else item


def _references(tree: exp.Expr, alias: str, listed: str) -> Iterator[Edit]:
    """Where GROUP BY and ORDER BY use the item's alias, which goes with the item."""
    for name in ("group", "order"):
        for use in _uses(tree, name, alias):
            for column in use.find_all(exp.Column):
                reach = reach_of(column)
                if _is_alias(column, alias) and reach is not None:
                    yield Edit(*reach, listed)


def _uses(tree: exp.Expr, clause: str, alias: str) -> list[exp.Expr]:
    """The expressions of GROUP BY (`group`) or ORDER BY (`order`) that use the alias."""
    listed = tree.args[clause].expressions if tree.args.get(clause) is not None else []
    return [
        each
        for each in listed
        if any(_is_alias(column, alias) for column in each.find_all(exp.Column))
    ]


def _is_alias(column: exp.Column, alias: str) -> bool:
    return bool(alias) and not column.table and column.name.lower() == alias.lower()
