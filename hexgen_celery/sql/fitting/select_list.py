"""The items of a statement's outermost SELECT list as they stand in its text."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hexgen_celery.sql.repairs.calls import CLOSING, OPENING, tokens_of

Span = tuple[int, int]
_HEAD = frozenset({TokenType.DISTINCT, TokenType.ALL})


def item_spans(sql: str, tree: exp.Expr) -> tuple[Span, ...]:
    """Where each item of `tree.selects` begins and ends (exclusive), its alias included.

    None when the statement is not one plain SELECT (perhaps after WITH), or text and tree differ.
    """
    if not isinstance(tree, exp.Select):
        return ()
    spans = _spans(_list_tokens(tokens_of(sql)))
    return spans if len(spans) == len(tree.selects) else ()


def _list_tokens(tokens: Sequence[Token]) -> list[Token]:
    """What stands between the outermost SELECT and its FROM."""
    depth, found, inside = 0, list[Token](), False
    for token in tokens:
        if depth == 0 and inside and token.token_type in (TokenType.FROM, TokenType.SEMICOLON):
            break
        if inside and not (not found and token.token_type in _HEAD):
            found.append(token)
        inside = inside or (depth == 0 and token.token_type is TokenType.SELECT)
        depth += _step(token)
    return found


def _spans(tokens: Sequence[Token]) -> tuple[Span, ...]:
    spans: list[Span] = []
    depth, begun = 0, True
    for token in tokens:
        if depth == 0 and token.token_type is TokenType.COMMA:
            begun = True
            continue
        if begun:
            spans.append((token.start, token.end + 1))
            begun = False
        spans[-1] = (spans[-1][0], token.end + 1)
        depth += _step(token)
    return tuple(spans)


def _step(token: Token) -> int:
    return (token.token_type in OPENING) - (token.token_type in CLOSING)
