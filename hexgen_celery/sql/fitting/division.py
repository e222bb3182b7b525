"""Ratios of whole numbers: SQLite cuts the fraction off (`5/2` is 2), the question wants it.

Only a division of which both sides are certain to be integers is touched, and none whose result is
cast to an integer, which is how one writes that the fraction shall go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hexgen_celery.sql.catalog import Column
from hexgen_celery.sql.fitting.statement import Part, Statement, reach_of
from hexgen_celery.sql.repairs.calls import CLOSING, OPENING, tokens_of
from hexgen_celery.sql.repairs.edits import Edit, Proposal

RULE = "true_division"
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_FOLDS = (exp.Sum, exp.Max, exp.Min, exp.Abs, exp.Paren, exp.Neg, exp.Alias)
_COUNTS = (exp.Count, exp.Length, exp.StrPosition, exp.RowNumber, exp.Rank, exp.DenseRank)


def true_divisions(statement: Statement) -> Iterator[Proposal]:
    """Every division of integers, its left side made a real number."""
    tokens = tokens_of(statement.sql)
    edits = [
        edit
        for part in statement.parts
        for division in part.find(exp.Div)
        if _cuts(division, part)
        for edit in _cast(division, tokens)
    ]
    if edits:
        yield Proposal(RULE, tuple(edits))


def _cuts(division: exp.Div, part: Part) -> bool:
    """Whether the division loses a fraction that nobody asked to lose."""
    inner = (node for node in division.this.find_all(exp.Div))
    if any(_cuts(node, part) for node in inner):
        return False  # Making the inner one real makes this one real.
    parent = division.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    wanted = isinstance(parent, exp.Cast) and _is_integer_type(parent.to.sql())
    return not wanted and is_integer(division.this, part) and is_integer(division.expression, part)


def is_integer(node: exp.Expr | None, part: Part) -> bool:
    """Whether the expression is certain to give an integer (or NULL)."""
    if node is None or isinstance(node, exp.Null | exp.Predicate | exp.Boolean):
        return True
    if isinstance(node, exp.Literal):
        return not node.is_string and node.name.isdigit()
    if isinstance(node, exp.Column):
        stored = part.stored(node)
        return stored is not None and _holds_integers(stored.column)
    if isinstance(node, _COUNTS):
        return True
    if isinstance(node, exp.Cast):
        return _is_integer_type(node.to.sql())
    return all(is_integer(each, part) for each in _operands(node))


def _operands(node: exp.Expr) -> list[exp.Expr | None]:
    """What must be integers for the node to be one; the node itself stands for `no`."""
    if isinstance(node, _ARITHMETIC):
        return [node.this, node.expression]
    if isinstance(node, _FOLDS):
        return [node.this]
    if isinstance(node, exp.Distinct):
        return list(node.expressions)
    if isinstance(node, exp.If):
        return [node.args.get("true"), node.args.get("false")]
    if isinstance(node, exp.Case):
        return [*(each.args.get("true") for each in node.args["ifs"]), node.args.get("default")]
    if isinstance(node, exp.Coalesce):
        return [node.this, *node.expressions]
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        return _counted(node.this)
    return [exp.Literal.string("")]


def _counted(select: exp.Select) -> list[exp.Expr | None]:
    """A subquery in an expression is judged only where it counts: its columns are its own."""
    only = select.selects[0].unalias() if len(select.selects) == 1 else None
    return [] if isinstance(only, exp.Count) else [exp.Literal.string("")]


def _holds_integers(column: Column) -> bool:
    return _is_integer_type(column.type) and not isinstance(column.maximum, float)


def _is_integer_type(declared: str) -> bool:
    """SQLite's rule of affinity: a type whose name holds INT."""
    return "INT" in declared.upper()


def _cast(division: exp.Div, tokens: Sequence[Token]) -> list[Edit]:
    left, right = reach_of(division.this), reach_of(division.expression)
    if left is None or right is None:
        return []
    slash = next(
        (
            place
            for place, token in enumerate(tokens)
            if token.token_type is TokenType.SLASH and left[1] <= token.start < right[0]
        ),
        0,
    )
    if slash == 0:
        return []
    start = tokens[_operand_start(tokens, slash - 1)].start
    end = tokens[slash - 1].end + 1
    return [Edit(start, start, "CAST("), Edit(end, end, " AS REAL)")]


def _operand_start(tokens: Sequence[Token], last: int) -> int:
    """The place of the first token of the operand that ends with token `last`."""
    place = last
    if tokens[place].token_type in CLOSING:
        place = _opening(tokens, place)
        before = tokens[place - 1] if place else None
        if (
            before is not None
            and before.text[:1].isalpha()
            and before.end + 1 == tokens[place].start
        ):
            place -= 1
        return place
    if tokens[place].token_type is TokenType.END:
        return _case_start(tokens, place)
    while place >= 2 and tokens[place - 1].token_type is TokenType.DOT:
        place -= 2
    return place


def _opening(tokens: Sequence[Token], closing: int) -> int:
    depth = 0
    for place in range(closing, -1, -1):
        depth += tokens[place].token_type in CLOSING
        depth -= tokens[place].token_type in OPENING
        if depth == 0:
            return place
    return closing


def _case_start(tokens: Sequence[Token], end: int) -> int:
    depth = 0
    for place in range(end, -1, -1):
        depth += tokens[place].token_type is TokenType.END
        depth -= tokens[place].token_type is TokenType.CASE
        if depth == 0:
            return place
    return end
