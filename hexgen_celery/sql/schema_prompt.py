"""A catalog as the text that goes into a prompt.

The text is the same, byte for byte, for the same catalog: it is the shared beginning of many
prompts and so the key of the servers' prefix caches. Everything that comes from the database or its
descriptions is put on one line and cut, so that it cannot pass for instructions of ours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from hexgen_celery.sql.catalog import Catalog, Column, ForeignKey, SampleValue, Table
from hexgen_celery.sql.identifiers import quote

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\s]+")
MAX_NAME_CHARS = 200
EVIDENCE_LABEL = re.compile(r"^\s*commonsense (?:evidence|reasoning)\s*:?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SchemaPromptStyle:
    """How much of the catalog is shown: values per column (more where those are all it has),
    characters per value and description, and whether statistics are."""

    samples: int = 3
    all_samples: int = 5
    statistics: bool = True
    sample_chars: int = 40
    description_chars: int = 160
    value_description_chars: int = 240


def schema_prompt(
    catalog: Catalog, tables: Collection[str] | None = None, style: SchemaPromptStyle | None = None
) -> str:
    """The schema as CREATE TABLE statements with comments; of `tables` only, if given."""
    style = style or SchemaPromptStyle()
    wanted = None if tables is None else {name.lower() for name in tables}
    shown = [table for table in catalog.tables if wanted is None or table.name.lower() in wanted]
    return "\n\n".join(_table_text(table, style) for table in shown)


def _table_text(table: Table, style: SchemaPromptStyle) -> str:
    composite = len(table.primary_key) > 1
    lines = [_column_line(column, composite, style) for column in table.columns]
    if composite:
        lines.append((f"PRIMARY KEY ({_names(table.primary_key)})", ""))
    lines.extend((_foreign_key(key), "") for key in table.foreign_keys)
    last = len(lines) - 1
    body = [
        f"  {sql}{',' if place < last else ''}{f' -- {comment}' if comment else ''}"
        for place, (sql, comment) in enumerate(lines)
    ]
    kind = "VIEW" if table.view else "TABLE"
    size = "" if table.rows is None else f" -- {table.rows} rows"
    likely = [f"-- probably: {_foreign_key(key)}" for key in table.inferred_keys]
    return "\n".join([f"CREATE {kind} {_name(table.name)} (", *body, f");{size}", *likely])


def _column_line(column: Column, composite: bool, style: SchemaPromptStyle) -> tuple[str, str]:
    parts = [_name(column.name)]
    if column.type:
        parts.append(_one_line(column.type, style.description_chars))
    if column.primary_key and not composite:
        parts.append("PRIMARY KEY")
    elif column.not_null:
        parts.append("NOT NULL")
    return " ".join(parts), _comment(column, style)


def _comment(column: Column, style: SchemaPromptStyle) -> str:
    titles = (column.title, column.description)
    title, description = ("" if _same_words(text, column.name) else text for text in titles)
    texts = [
        _one_line(title, style.description_chars),
        _one_line(description, style.description_chars),
        _one_line(EVIDENCE_LABEL.sub("", column.value_description), style.value_description_chars),
        _samples(column, style),
        *(_statistics(column, style) if style.statistics else ()),
    ]
    return "; ".join(text for place, text in enumerate(texts) if text and text not in texts[:place])


def _samples(column: Column, style: SchemaPromptStyle) -> str:
    every = _shows_all(column, style)
    shown = column.samples[: style.all_samples if every else style.samples]
    values = ", ".join(_literal(value, style.sample_chars) for value in shown)
    return f"{'values' if every else 'e.g.'} {values}" if values else ""


def _shows_all(column: Column, style: SchemaPromptStyle) -> bool:
    most = min(len(column.samples), style.all_samples)
    return column.whole and column.distinct is not None and 0 < column.distinct <= most


def _statistics(column: Column, style: SchemaPromptStyle) -> Iterator[str]:
    """What the values shown do not tell: the form, the range, how many differ, how many lack."""
    every = _shows_all(column, style)
    if column.shapes and not every:
        yield f"form {' or '.join(_one_line(each, style.sample_chars) for each in column.shapes)}"
    if _has_range(column) and not every:
        ends = (column.minimum, column.maximum)
        low, high = (_literal(end, style.sample_chars) for end in ends if end is not None)
        yield f"{low} to {high}"
    if column.distinct is not None and column.whole and not (every or column.primary_key):
        yield f"{column.distinct} different"
    if column.nulls:
        yield f"{column.nulls} NULL"


def _has_range(column: Column) -> bool:
    """Whether least and greatest value say something: of numbers and dates, not of keys."""
    if column.primary_key or column.minimum is None or column.maximum is None:
        return False
    ends = (column.minimum, column.maximum)
    return all(isinstance(end, int | float) for end in ends) or len(column.shapes) == 1


def _literal(value: SampleValue, limit: int) -> str:
    if isinstance(value, str):
        return "'" + _one_line(value, limit).replace("'", "''") + "'"
    if isinstance(value, float) and not math.isfinite(value):
        return "9e999" if value > 0 else "-9e999"
    return str(value)


def _foreign_key(key: ForeignKey) -> str:
    target = f" ({_names(key.references)})" if key.references else ""
    return f"FOREIGN KEY ({_names(key.columns)}) REFERENCES {_name(key.table)}{target}"


def _name(name: str) -> str:
    """The name on one line. A statement that spells a name with line breaks this way is repaired
    by rules; a name that was too long to show cannot be used."""
    return quote(_one_line(name, MAX_NAME_CHARS))


def _names(names: Collection[str]) -> str:
    return ", ".join(map(_name, names))


def _same_words(title: str, name: str) -> bool:
    return re.sub(r"[\W_]+", "", title).lower() == re.sub(r"[\W_]+", "", name).lower()


def _one_line(text: str, limit: int) -> str:
    line = UNPRINTABLE.sub(" ", text).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
