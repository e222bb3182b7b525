"""Repairs of names that the database does not have but nearly has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hexgen_celery.sql.checking.nearness import (
    RULES,
    NearnessRules,
    Suggestion,
    nearest_tables,
    one_edit_away,
    suggestions_for,
)
from hexgen_celery.sql.checking.sources import Source
from hexgen_celery.sql.checking.unknown_names import Kind, UnknownName
from hexgen_celery.sql.identifiers import quote
from hexgen_celery.sql.repairs.edits import Case, Edit, Proposal


def wrong_qualifiers(case: Case) -> Iterator[Proposal]:
    """`T1.cost` where only T2 has the column, or `expense.cost` where expense is called T2."""
    for unknown in case.diagnosis.unknown:
        edit = _requalified(case.sql, unknown)
        if edit is not None:
            yield Proposal.of("qualifier", edit)


def _requalified(sql: str, unknown: UnknownName) -> Edit | None:
    if unknown.kind is Kind.QUALIFIER:
        source = _renamed(unknown) or _only_holder(unknown, unknown.qualifier)
        return Edit(unknown.start, unknown.end, quote(source.alias)) if source else None
    if unknown.kind is not Kind.COLUMN or not unknown.qualifier:
        return None
    source = _only_holder(unknown, unknown.name)
    span = qualifier_span(sql, unknown)
    return Edit(*span, quote(source.alias)) if source and span else None


def _renamed(unknown: UnknownName) -> Source | None:
    """The one relation that shows the table under another name."""
    renamed = unknown.visible.aliased(unknown.name)
    return renamed[0] if len(renamed) == 1 and renamed[0].has(unknown.qualifier) else None


def _only_holder(unknown: UnknownName, column: str) -> Source | None:
    """The one relation of the innermost query that certainly has the column."""
    level = unknown.visible.levels[0] if unknown.visible.levels else ()
    holders = [source for source in level if source.columns is not None and source.has(column)]
    return holders[0] if len(holders) == 1 else None


def qualifier_span(sql: str, unknown: UnknownName) -> tuple[int, int] | None:
    """Where the qualifier before an unknown column stands, quotes included."""
    before = sql[: unknown.start].rstrip()
    if unknown.start < 0 or not before.endswith("."):
        return None
    before = before[:-1].rstrip()
    name = unknown.qualifier
    for written in (name, f'"{name}"', f"`{name}`", f"[{name}]"):
        if before.lower().endswith(written.lower()):
            return (len(before) - len(written), len(before))
    return None


def misspelt_columns(case: Case) -> Iterator[Proposal]:
    """A column for which the query has exactly one near name."""
    for unknown in case.diagnosis.unknown:
        if unknown.kind is Kind.COLUMN and unknown.start >= 0:
            chosen = certain_suggestion(unknown.name, suggestions_for(unknown, case.names))
            if chosen is not None and chosen.source:
                yield Proposal("column_name", _renaming(case.sql, unknown, chosen))


def certain_suggestion(
    name: str, suggestions: Sequence[Suggestion], rules: NearnessRules = RULES
) -> Suggestion | None:
    """The first suggestion if it is near, and no other comes close to it.

    One that is equal but for case, spaces and punctuation need not lead by much.
    """
    if not suggestions or not _is_certain(name, suggestions[0], rules):
        return None
    second = suggestions[1].score if len(suggestions) > 1 else 0.0
    lead = suggestions[0].score - second
    equal = suggestions[0].score >= 1.0 and lead > 0
    return suggestions[0] if equal or lead >= rules.lead else None


def _is_certain(name: str, suggestion: Suggestion, rules: NearnessRules) -> bool:
    if suggestion.score >= rules.certain:
        return True
    long_enough = len(suggestion.column) >= rules.one_edit_chars
    return long_enough and one_edit_away(name, suggestion.column)


def _renaming(sql: str, unknown: UnknownName, chosen: Suggestion) -> tuple[Edit, ...]:
    edit = Edit(unknown.start, unknown.end, quote(chosen.column))
    moved = unknown.qualifier and unknown.qualifier.lower() != chosen.source.lower()
    span = qualifier_span(sql, unknown) if moved else None
    return (Edit(*span, quote(chosen.source)), edit) if span else (edit,)


def misspelt_tables(case: Case) -> Iterator[Proposal]:
    """A table for which the database has exactly one near name."""
    for unknown in case.diagnosis.unknown:
        if unknown.kind is Kind.TABLE and unknown.start >= 0:
            near = nearest_tables(unknown.name, case.names)
            second = near[1][1] if len(near) > 1 else 0.0
            if near and near[0][1] >= RULES.certain and near[0][1] - second >= RULES.lead:
                yield Proposal.of("table_name", Edit(unknown.start, unknown.end, quote(near[0][0])))
