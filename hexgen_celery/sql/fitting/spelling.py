"""Texts in conditions as they are stored: `'stealth'` where the database says `Stealth`.

A text is changed only where the column does not hold it at all and holds exactly one that differs
from it in the case of letters or in spaces around it, or, for a date, in its form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date

from sqlglot import exp

from hexgen_celery.sql.catalog import Column
from hexgen_celery.sql.fitting.statement import Part, Statement, Stored, span_of
from hexgen_celery.sql.identifiers import quote_always
from hexgen_celery.sql.repairs.edits import Edit, Proposal

RULE = "stored_spelling"
ISO_SHAPE = "9999-99-99"
MAX_CHARS = 200
MAX_SPELLINGS = 3
_SLASHED = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")

Spellings = Callable[[str, str, str], tuple[str, ...]]
"""`spellings(table, column, text)`: the different values of the column that equal the text but for
case and surrounding spaces, the text itself among them if it is stored; at most three. The text
alone stands for "do not know"."""


def spellings_query(table: str, column: str, text: str) -> str:
    """The SELECT behind `Spellings`."""
    name, wanted = quote_always(column), f"TRIM({_literal(text)})"
    source = f"SELECT DISTINCT {name} FROM {quote_always(table)}"
    return f"{source} WHERE TRIM({name}) = {wanted} COLLATE NOCASE LIMIT {MAX_SPELLINGS}"


def stored_spellings(statement: Statement, spellings: Spellings) -> Iterator[Proposal]:
    """Every text that its column does not hold, as the column has it."""
    edits = [
        edit
        for part in statement.parts
        for reference, text in _comparisons(part)
        for edit in _respelt(part, reference, text, spellings)
    ]
    if edits:
        yield Proposal(RULE, tuple(edits))


def _comparisons(part: Part) -> Iterator[tuple[exp.Column, exp.Expr]]:
    """Columns with the texts they must be equal (or unequal) to."""
    for comparison in part.find(exp.EQ, exp.NEQ):
        sides = (comparison.this, comparison.expression)
        for reference, text in (sides, sides[::-1]):
            if isinstance(reference, exp.Column) and _is_text(text):
                yield reference, text
    for membership in part.find(exp.In):
        if isinstance(membership.this, exp.Column):
            yield from (
                (membership.this, text) for text in membership.expressions if _is_text(text)
            )


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string and len(node.name) <= MAX_CHARS


def _respelt(
    part: Part, reference: exp.Column, text: exp.Expr, spellings: Spellings
) -> Iterator[Edit]:
    stored, span = part.stored(reference), span_of(text)
    if stored is None or span is None:
        return
    better = _spelling(stored, text.name, spellings)
    if better is not None:
        yield Edit(*span, _literal(better))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _spelling(stored: Stored, text: str, spellings: Spellings) -> str | None:
    found = spellings(stored.table, stored.column.name, text)
    if found:
        return found[0] if len(found) == 1 and found[0] != text else None
    dated = _iso_date(text, stored.column)
    if dated is not None and spellings(stored.table, stored.column.name, dated) == (dated,):
        return dated
    return None


def _iso_date(text: str, column: Column) -> str | None:
    """`9/30/2019` (month first, as SQL's users of slashes write it) as `2019-09-30`."""
    match = _SLASHED.fullmatch(text.strip())
    if match is None or ISO_SHAPE not in column.shapes:
        return None
    month, day, year = map(int, match.groups())
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None
