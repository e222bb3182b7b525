"""The part of a prompt that depends on the question, section by section.

Questions, hints, error messages and rows come from outside: each is fenced by a tag which it can
neither open nor close, and cut to a length, so that it stays what it is: data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hexgen_celery.workflows.prompt_parts import capped, fenced
from hexgen_celery.workflows.stage_contract import Attempt, LinkedSchema, LinkedValue, Question


@dataclass(frozen=True, slots=True)
class TailLimits:
    """The most characters of each kind of content in one prompt."""

    question: int = 10_000
    evidence: int = 20_000
    sql: int = 8_000
    error: int = 600
    cell: int = 80
    value: int = 100
    preview: int = 1_500
    names: int = 4_000
    preview_rows: int = 5


LIMITS = TailLimits()


def question_section(question: Question) -> str:
    """The question, and its hint where there is one."""
    asked = fenced("question", question.text, LIMITS.question)
    if not question.evidence.strip():
        return asked
    return asked + fenced("evidence", question.evidence, LIMITS.evidence)


def linked_section(linked: LinkedSchema) -> str:
    """The tables, columns and stored values that seem to matter; "" where none is singled out."""
    lines = [
        f"{title}: {', '.join(names)}"
        for title, names in (("tables", linked.tables), ("columns", linked.columns))
        if names
    ]
    if linked.values:
        lines += [
            "stored values that resemble words of the question:",
            *_value_lines(linked.values),
        ]
    return fenced("relevant", "\n".join(lines), LIMITS.names) if lines else ""


def _value_lines(values: Iterable[LinkedValue]) -> list[str]:
    """One line a column, with its values written as SQL texts."""
    found: dict[str, list[str]] = {}
    for each in values:
        text = capped(" ".join(each.value.split()), LIMITS.value).replace("'", "''")
        found.setdefault(f"{each.table}.{each.column}", []).append(f"'{text}'")
    return [f"{column}: {', '.join(texts)}" for column, texts in found.items()]


def sql_section(sql: str) -> str:
    """A statement that was tried."""
    return fenced("sql", sql, LIMITS.sql)


def outcome_section(attempt: Attempt) -> str:
    """What running the statement gave, in words."""
    return fenced("outcome", _outcome(attempt), LIMITS.error + LIMITS.preview)


def _outcome(attempt: Attempt) -> str:
    if not attempt.ran:
        return f"{attempt.status}: {capped(attempt.error, LIMITS.error)}"
    if attempt.empty:
        return "it ran and returned nothing (no rows, or only NULL)"
    more = " or more" if attempt.truncated else ""
    columns = capped(", ".join(attempt.columns), LIMITS.error)
    return f"{attempt.row_count}{more} rows with the columns {columns}{_preview(attempt)}"


def _preview(attempt: Attempt) -> str:
    rows = [_row(row) for row in attempt.preview[: LIMITS.preview_rows]]
    return capped("\nfirst rows:\n" + "\n".join(rows), LIMITS.preview) if rows else ""


def _row(row: Sequence[object]) -> str:
    return " | ".join(capped(json.dumps(cell, ensure_ascii=False), LIMITS.cell) for cell in row)
