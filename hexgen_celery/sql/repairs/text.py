"""Repairs of what markdown, typography and English do to SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hexgen_celery.sql.checking.complaints import Cause
from hexgen_celery.sql.repairs.edits import Case, Edit, Proposal

LEXICAL = (Cause.SYNTAX, Cause.TOKEN, Cause.INCOMPLETE)
TYPOGRAPHIC = {"‘": "'", "’": "'", "“": '"', "”": '"', "′": "'", "＂": '"', "\u00a0": " "}
_ESCAPED = re.compile(r"\\(?=[_*\[\]()<>#~`.!+-])")
_INNER_APOSTROPHE = re.compile(r"(?<=[A-Za-z])'(?=[a-z]{1,2}\b)")
_BACKSLASHED = re.compile(r"\\(?=')")


def markdown_escapes(case: Case) -> Iterator[Proposal]:
    r"""`hero\_name`: a backslash of markdown's, which SQL does not have."""
    complaint = case.diagnosis.complaint
    if complaint is not None and complaint.subject.startswith("\\"):
        edits = [Edit(*match.span(), "") for match in _ESCAPED.finditer(case.sql)]
        yield Proposal("markdown_escape", tuple(edits))


def typographic_quotes(case: Case) -> Iterator[Proposal]:
    """Curly quotes and no-break spaces where SQL's plain ones were meant."""
    complaint = case.diagnosis.complaint
    if complaint is None or complaint.cause not in (*LEXICAL, Cause.NO_COLUMN):
        return
    edits = [
        Edit(place, place + 1, TYPOGRAPHIC[character])
        for place, character in enumerate(case.sql)
        if character in TYPOGRAPHIC
    ]
    if edits:
        yield Proposal("typographic_quote", tuple(edits))


def apostrophes(case: Case) -> Iterator[Proposal]:
    r"""`'Women's Soccer'`, `'Women\'s Soccer'`: an apostrophe inside a text must be doubled."""
    complaint = case.diagnosis.complaint
    if complaint is None or complaint.cause not in LEXICAL:
        return
    escapes = [Edit(*match.span(), "'") for match in _BACKSLASHED.finditer(case.sql)]
    if escapes:
        yield Proposal("apostrophe", tuple(escapes))
    edits = [Edit(*match.span(), "''") for match in _INNER_APOSTROPHE.finditer(case.sql)]
    if edits:
        yield Proposal("apostrophe", tuple(edits))
