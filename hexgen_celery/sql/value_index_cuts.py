"""Which columns and values a value index holds: those a question may name as they are stored."""

from __future__ import annotations

from dataclasses import dataclass

from hexgen_celery.sql.catalog import Catalog, Column


@dataclass(frozen=True, slots=True)
class ValueIndexBounds:
    """Size cuts of an index, so that building it and its file stay small.

    `value_chars`: longer texts are prose, which nobody quotes whole. `column_values`: of a column
    with more different values the most frequent are kept. `values`: in the whole index. `seconds`:
    building stops then, with what there is.
    """

    value_chars: int = 100
    column_values: int = 50_000
    values: int = 400_000
    seconds: float = 60.0


def indexed_columns(catalog: Catalog) -> list[tuple[str, Column]]:
    """The columns worth indexing, each with its table, those with the fewest values first.

    In this order a cut of the whole index takes names of things before free texts.
    """
    found = [
        (table.name, column)
        for table in catalog.tables
        if not table.view
        for column in table.columns
        if _is_worth_it(column)
    ]
    return sorted(found, key=lambda each: (each[1].distinct or 0, each[0], each[1].name))


def _is_worth_it(column: Column) -> bool:
    """Whether the column holds texts with letters; keys made by programs are left out."""
    texts = [value for value in column.samples if isinstance(value, str)]
    if not any(letter.isalpha() for text in texts for letter in text):
        return False
    return not (column.primary_key and all(map(_looks_generated, texts)))


def _looks_generated(text: str) -> bool:
    """Whether it looks like an identifier no person would write (`rec4BLdZHS2Blfp4v`)."""
    mixed = any(letter.isdigit() for letter in text) and any(letter.isalpha() for letter in text)
    return " " not in text and len(text) >= 10 and mixed
