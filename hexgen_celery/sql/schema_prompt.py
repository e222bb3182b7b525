"""A catalog as the text that goes into a prompt.

The text is the same, byte for byte, for the same catalog: it is the shared beginning of many
prompts and so the key of the servers' prefix caches. Everything that comes from the database or its
descriptions is put on one line and cut, so that it cannot pass for instructions of ours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass

from hexgen_celery.sql.catalog import Catalog, Column, ForeignKey, SampleValue, Table
from hexgen_celery.sql.identifiers import quote

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\s]+")
EVIDENCE_LABEL = re.compile(r"^\s*commonsense (?:evidence|reasoning)\s*:?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SchemaPromptStyle:
    """How much of the catalog is shown: values per column, characters per value and description."""

    samples: int = 3
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
    return "\n".join([f"CREATE {kind} {quote(table.name)} (", *body, f");{size}"])


def _column_line(column: Column, composite: bool, style: SchemaPromptStyle) -> tuple[str, str]:
    parts = [quote(column.name)]
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
    ]
    return "; ".join(text for place, text in enumerate(texts) if text and text not in texts[:place])


def _samples(column: Column, style: SchemaPromptStyle) -> str:
    values = [_literal(value, style.sample_chars) for value in column.samples[: style.samples]]
    return f"e.g. {', '.join(values)}" if values else ""


def _literal(value: SampleValue, limit: int) -> str:
    if isinstance(value, str):
        return "'" + _one_line(value, limit).replace("'", "''") + "'"
    if isinstance(value, float) and not math.isfinite(value):
        return "9e999" if value > 0 else "-9e999"
    return str(value)


def _foreign_key(key: ForeignKey) -> str:
    target = f" ({_names(key.references)})" if key.references else ""
    return f"FOREIGN KEY ({_names(key.columns)}) REFERENCES {quote(key.table)}{target}"


def _names(names: Collection[str]) -> str:
    return ", ".join(map(quote, names))


def _same_words(title: str, name: str) -> bool:
    return re.sub(r"[\W_]+", "", title).lower() == re.sub(r"[\W_]+", "", name).lower()


def _one_line(text: str, limit: int) -> str:
    line = UNPRINTABLE.sub(" ", text).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
