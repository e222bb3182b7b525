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
    selects = statement.tree.selects if isinstance(statement.tree, exp.Select) else []
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


def _references(tree: exp.Expr, alias: str, listed: str) -> Iterator[Edit]:
    """Where GROUP BY and ORDER BY use the item's alias, which goes with the item."""
    clauses = (tree.args.get(name) for name in ("group", "order"))
    for clause in clauses:
        for column in clause.find_all(exp.Column) if clause is not None and alias else ():
            reach = reach_of(column)
            if not column.table and column.name.lower() == alias.lower() and reach is not None:
                yield Edit(*reach, listed)
