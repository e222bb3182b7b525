"""Repairs of names that need quotes and have none, or have them in the wrong place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hexgen_celery.sql.checking.complaints import Cause
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.checking.unknown_names import UnknownName
from hexgen_celery.sql.identifiers import KEYWORDS, PLAIN, quote, quote_always
from hexgen_celery.sql.repairs.edits import Case, Edit, Proposal, outside, quoted_spans

MISREAD = (Cause.SYNTAX, Cause.TOKEN, Cause.NO_COLUMN, Cause.NO_FUNCTION, Cause.INCOMPLETE)
_PIECE = re.compile(r"\w+|[^\w\s]")
_NOT_BY = r"(?!\s+BY\b)"


def unquoted_names(case: Case) -> Iterator[Proposal]:
    """`frpm.Free Meal Count (K-12)`: a column's name with spaces or punctuation, bare."""
    complaint = case.diagnosis.complaint
    if complaint is None or complaint.cause not in MISREAD:
        return
    taken = quoted_spans(case.sql)
    edits: list[Edit] = []
    for name in _awkward_names(case.names):
        for match in _pattern(name).finditer(case.sql):
            if outside(taken, *match.span()):
                taken.append(match.span())
                edits.append(Edit(*match.span(), quote_always(name)))
    if edits:
        yield Proposal("quote_name", tuple(edits))


def _awkward_names(names: SchemaNames) -> list[str]:
    """Names that cannot stand bare, the longest first, so that none hides in another."""
    known = {column for _, column in names.every_column()} | set(names.tables)
    return sorted((name for name in known if not PLAIN.match(name)), key=lambda n: (-len(n), n))


def _pattern(name: str) -> re.Pattern[str]:
    """The name's words and signs in order, with any space between them."""
    pieces = [re.escape(piece) for piece in _PIECE.findall(name)]
    body = r"\s*".join(pieces)
    head = r"\b" if name[:1].isalnum() else ""
    tail = r"\b" if name[-1:].isalnum() else ""
    return re.compile(head + body + tail, re.IGNORECASE)


def reserved_words(case: Case) -> Iterator[Proposal]:
    """`SELECT order FROM …`: a name that is also a keyword, bare."""
    complaint = case.diagnosis.complaint
    if complaint is None or complaint.cause not in (Cause.SYNTAX, Cause.INCOMPLETE):
        return
    known = {name.lower() for name in (*case.names.tables, *_columns(case.names))} & KEYWORDS
    spans = quoted_spans(case.sql)
    for word in sorted(known):
        found = [
            match.span()
            for match in re.finditer(rf"\b{re.escape(word)}\b{_NOT_BY}", case.sql, re.IGNORECASE)
            if outside(spans, *match.span())
        ]
        qualified = [span for span in found if case.sql[: span[0]].rstrip().endswith(".")]
        for chosen in (qualified, found, *([span] for span in found)):
            if chosen:
                yield Proposal("quote_keyword", tuple(_quoted(case.sql, s) for s in chosen))


def _columns(names: SchemaNames) -> set[str]:
    return {column for _, column in names.every_column()}


def _quoted(sql: str, span: tuple[int, int]) -> Edit:
    return Edit(*span, quote_always(sql[slice(*span)]))


def dotted_in_quotes(case: Case) -> Iterator[Proposal]:
    """`"frpm.County Name"`: table and column together in one pair of quotes."""
    for unknown in case.diagnosis.unknown:
        edit = _split(unknown)
        if edit is not None:
            yield Proposal.of("split_quotes", edit)


def _split(unknown: UnknownName) -> Edit | None:
    before, dot, after = unknown.name.partition(".")
    if not dot or unknown.qualifier or unknown.start < 0:
        return None
    source = unknown.visible.named(before)
    aliased = unknown.visible.aliased(before)
    source = source or (aliased[0] if len(aliased) == 1 else None)
    if source is None or not source.has(after):
        return None
    return Edit(unknown.start, unknown.end, f"{quote(source.alias)}.{quote(after)}")
