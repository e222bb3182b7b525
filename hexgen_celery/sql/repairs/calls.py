"""Function calls in a statement, found by its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)


@dataclass(frozen=True, slots=True)
class Call:
    """`name(arguments)` at `sql[start:end]`; the arguments as they are written."""

    name: str
    start: int
    end: int
    arguments: tuple[str, ...]


def tokens_of(sql: str) -> list[Token]:
    """The statement's tokens with their positions; none when a text in it does not end."""
    try:
        return SQLite().tokenize(sql)
    except SqlglotError:
        return []


def calls_in(sql: str) -> Iterator[Call]:
    """Every call, inner ones after the one around them."""
    tokens = tokens_of(sql)
    for place, token in enumerate(tokens[:-1]):
        following = tokens[place + 1]
        if following.token_type is TokenType.L_PAREN and token.text[:1].isalpha():
            call = _call(sql, tokens, place)
            if call is not None:
                yield call


def _call(sql: str, tokens: list[Token], place: int) -> Call | None:
    cuts, depth = [tokens[place + 1].end + 1], 0
    for token in tokens[place + 1 :]:
        if token.token_type in OPENING:
            depth += 1
        elif token.token_type in CLOSING:
            depth -= 1
        elif token.token_type is TokenType.COMMA and depth == 1:
            cuts += [token.start, token.end + 1]
        if depth == 0:
            cuts.append(token.start)
            pairs = zip(cuts[::2], cuts[1::2], strict=True)
            arguments = tuple(sql[begin:stop].strip() for begin, stop in pairs)
            given = arguments if arguments != ("",) else ()
            return Call(tokens[place].text, tokens[place].start, token.end + 1, given)
    return None
