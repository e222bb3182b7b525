"""Foreign keys that nobody declared, inferred from names and values.

A column is taken for a reference to another table's key when its name says so and when (almost)
all its values occur there. Names alone would tie every `id` to every `id`, values alone every small
number to every counter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hexgen_celery.sql.catalog import Catalog, Column, ForeignKey, Table

Inclusion = Callable[[str, str, str, str], float | None]
"""The share of the values of (table, column) that occur in (other table, other column), or None."""

GENERIC = frozenset({"id", "name", "code", "key", "type", "date", "year", "value", "number"})
_SIGNS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class InferenceRules:
    """`inclusion`: the least share of values found in the other table. `comparisons`: how many
    pairs of columns are compared at most, each of which reads the database."""

    inclusion: float = 0.98
    comparisons: int = 400


def with_inferred_keys(
    catalog: Catalog, inclusion: Inclusion, rules: InferenceRules | None = None
) -> Catalog:
    """The catalog with the references that its names suggest and its values confirm."""
    rules = rules or InferenceRules()
    remaining = rules.comparisons
    found: dict[str, list[ForeignKey]] = {}
    for table, column, target, key in _pairs(catalog):
        if remaining <= 0 or _is_tied(found, table, column, target, key):
            continue
        remaining -= 1
        share = inclusion(table.name, column.name, target.name, key.name)
        if share is not None and share >= rules.inclusion:
            reference = ForeignKey((column.name,), target.name, (key.name,))
            found.setdefault(table.name, []).append(reference)
    return replace(catalog, tables=tuple(_with_keys(table, found) for table in catalog.tables))


def _with_keys(table: Table, found: dict[str, list[ForeignKey]]) -> Table:
    return replace(table, inferred_keys=tuple(found.get(table.name, ())))


def _pairs(catalog: Catalog) -> Iterator[tuple[Table, Column, Table, Column]]:
    """Pairs that names suggest: first references by name, then equal names."""
    tables = [table for table in catalog.tables if not table.view and table.rows]
    for table in tables:
        declared = {name.lower() for key in table.foreign_keys for name in key.columns}
        for column in table.columns:
            if column.name.lower() in declared:
                continue
            for target in tables:
                key = _single_key(target)
                if key is not None and target is not table and _fits(table, column, target, key):
                    yield table, column, target, key


def _single_key(table: Table) -> Column | None:
    """The one column that identifies the table's rows: its key, or the first without repetition."""
    if len(table.primary_key) == 1:
        return table.column(table.primary_key[0])
    if table.primary_key:
        return None
    unique = (c for c in table.columns if c.whole and c.nulls == 0 and c.distinct == table.rows)
    return next(unique, None)


def _fits(table: Table, column: Column, target: Table, key: Column) -> bool:
    name, key_name, target_name = map(_plain, (column.name, key.name, target.name))
    if not _same_kind(column, key) or not name:
        return False
    singular = target_name.removesuffix("s")
    if name in {singular + key_name, target_name + key_name, singular + "id", "id" + singular}:
        return True
    if name in (singular, target_name, "linkto" + singular):
        return not column.primary_key
    if name != key_name or name in GENERIC:
        return False
    # Two keys of one name: the smaller table refers to the larger.
    return not column.primary_key or (table.rows or 0) < (target.rows or 0)


def _plain(name: str) -> str:
    return _SIGNS.sub("", name).lower()


def _same_kind(column: Column, other: Column) -> bool:
    texts = [any(isinstance(value, str) for value in each.samples) for each in (column, other)]
    return texts[0] == texts[1]


def _is_tied(
    found: dict[str, list[ForeignKey]], table: Table, column: Column, target: Table, key: Column
) -> bool:
    """Whether the column refers somewhere already, or the tables refer to each other in reverse."""
    own = any(reference.columns == (column.name,) for reference in found.get(table.name, ()))
    back = ForeignKey((key.name,), table.name, (column.name,))
    target_keys = (*target.foreign_keys, *found.get(target.name, ()))
    return own or any(reference == back for reference in target_keys)
