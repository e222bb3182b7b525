"""What is wrong with a statement, in words a model can act on: the place, and the right names."""

from __future__ import annotations

from collections.abc import Iterable

from hexgen_celery.sql.checking.complaints import Cause, Complaint
from hexgen_celery.sql.checking.diagnosis import Diagnosis
from hexgen_celery.sql.checking.nearness import Suggestion, nearest_tables, suggestions_for
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.checking.unknown_names import Kind, UnknownName
from hexgen_celery.sql.identifiers import quote

MAX_NAMES = 4
MAX_LISTED = 6
MAX_NAME_CHARS = 80
FRAGMENT_CHARS = 30

ADVICE = {
    Cause.NO_FUNCTION: "SQLite does not have it (or does not allow it); use one of its own",
    Cause.ARGUMENTS: "look up how many arguments the function takes",
    Cause.AMBIGUOUS: "write the table's alias before it, and give a table that is joined twice "
    "two different aliases",
    Cause.AGGREGATE: "an aggregate belongs into SELECT, HAVING or ORDER BY, or into a subquery",
    Cause.INCOMPLETE: "the statement breaks off; write it to the end",
    Cause.TOKEN: "a quote is not closed, or a character does not belong there; double an "
    "apostrophe inside a text",
}


def feedback(diagnosis: Diagnosis, names: SchemaNames) -> str:
    """The faults of a statement that is not sound, the most telling first; "" for a sound one."""
    if diagnosis.refusal:
        return diagnosis.refusal
    lines = [_about_name(diagnosis.sql, each, names) for each in _distinct(diagnosis.unknown)]
    if diagnosis.complaint is not None and not _is_told(diagnosis.complaint, diagnosis.unknown):
        lines.insert(0, _about_complaint(diagnosis.sql, diagnosis.complaint, names))
    return ". ".join(lines)


def _distinct(unknown: Iterable[UnknownName]) -> list[UnknownName]:
    seen = {(each.kind, each.qualifier.lower(), each.name.lower()): each for each in unknown}
    return list(seen.values())[:MAX_NAMES]


def _is_told(complaint: Complaint, unknown: Iterable[UnknownName]) -> bool:
    """Whether one of the unknown names is what SQLite complains about."""
    if complaint.cause not in (Cause.NO_COLUMN, Cause.NO_TABLE):
        return False
    told = {part.lower() for each in unknown for part in (each.name, _written(each))}
    return complaint.subject.lower() in told


def _about_name(sql: str, unknown: UnknownName, names: SchemaNames) -> str:
    place = fragment(sql, unknown.start, unknown.end)
    if unknown.kind is Kind.TABLE:
        near = [table for table, _ in nearest_tables(unknown.name, names)]
        listed = near or list(names.tables)[:MAX_LISTED]
        word = "nearest" if near else "the tables are"
        return f"no such table: {_short(unknown.name)}{place}; {word}: {_list(listed)}"
    if unknown.kind is Kind.QUALIFIER:
        return f"{_short(unknown.name)} is no table of this query{place}; {_relations(unknown)}"
    hints = [*_holders(unknown, names), *_nearest(unknown, suggestions_for(unknown, names))]
    hint = f"; {'; '.join(hints)}" if hints else ""
    return f"no such column: {_short(_written(unknown))}{place}{hint}"


def _written(unknown: UnknownName) -> str:
    if unknown.kind is Kind.QUALIFIER:
        return f"{unknown.name}.{unknown.qualifier}"
    return f"{unknown.qualifier}.{unknown.name}" if unknown.qualifier else unknown.name


def _relations(unknown: UnknownName) -> str:
    aliased = unknown.visible.aliased(unknown.name)
    if aliased:
        return f"it is called {_list(source.alias for source in aliased)} here"
    shown = [
        source.alias if source.alias == source.table else f"{source.alias} ({source.table})"
        for source in unknown.visible
        if source.alias
    ]
    return f"it has {', '.join(map(_short, shown[:MAX_LISTED]))}" if shown else "it has none"


def _holders(unknown: UnknownName, names: SchemaNames) -> list[str]:
    """Which relations have a column of exactly that name."""
    here = [
        source.alias for source in unknown.visible if source.columns and source.has(unknown.name)
    ]
    if here:
        return [f"{_list(here)} has it"]
    elsewhere = names.holders(unknown.name)
    word = "has it: join it" if len(elsewhere) == 1 else "have it: join the right one"
    return [f"{_list(elsewhere)} {word}"] if elsewhere else []


def _nearest(unknown: UnknownName, suggestions: Iterable[Suggestion]) -> list[str]:
    told = [
        f"{quote(each.source or each.table)}.{quote(each.column)}"
        for each in suggestions
        if each.column.lower() != unknown.name.lower()
    ]
    return [f"nearest: {', '.join(told)}"] if told else []


def _about_complaint(sql: str, complaint: Complaint, names: SchemaNames) -> str:
    start = sql.find(complaint.subject) if complaint.subject else -1
    place = fragment(sql, start, start + len(complaint.subject)) if start >= 0 else ""
    advice = _ambiguity(complaint, names) or ADVICE.get(complaint.cause, "")
    hint = f"; {advice}" if advice else ""
    return f"{_short(complaint.message, 4 * MAX_NAME_CHARS)}{place}{hint}"


def _ambiguity(complaint: Complaint, names: SchemaNames) -> str:
    if complaint.cause is not Cause.AMBIGUOUS or "." in complaint.subject:
        return ""
    holders = names.holders(complaint.subject)
    return f"{_list(holders)} have it: write the table's alias before it" if holders else ""


def fragment(sql: str, start: int, end: int) -> str:
    """The piece of the statement around `start`…`end` as ` at …piece…`; "" when it is unknown."""
    if start < 0:
        return ""
    begin, stop = max(0, start - FRAGMENT_CHARS), min(len(sql), end + FRAGMENT_CHARS)
    piece = _short(sql[begin:stop], MAX_NAME_CHARS + 2 * FRAGMENT_CHARS)
    return f" at {'…' if begin else ''}{piece}{'…' if stop < len(sql) else ''}"


def _list(items: Iterable[str]) -> str:
    return ", ".join(quote(_short(item)) for item in list(items)[:MAX_LISTED])


def _short(text: str, limit: int = MAX_NAME_CHARS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit] + "…"
