"""The part of a catalog that a question is about, for schemas too long to send whole."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from hexgen_celery.sql.catalog import Catalog, ForeignKey, Table

Fits = Callable[[Catalog], bool]
"""Whether a catalog, as a prompt, is short enough."""


def fitting_subset(catalog: Catalog, columns: Sequence[str], fits: Fits) -> Catalog:
    """As much of the catalog as fits, `columns` (`table.column`, or `table` for all of it, the most
    important first) before the rest of it.

    Whatever is left out, the tables that remain keep their primary and foreign key columns, and
    tables that connect two of them come along. Without `columns`, or if not even the first fits,
    every table is reduced to its keys.
    """
    # More columns never make it shorter, so that the most that fit can be found by halving.
    too_many = bisect_left(
        range(1, len(columns) + 1),
        True,
        key=lambda count: not fits(subset(catalog, columns[:count])),
    )
    part = subset(catalog, columns[:too_many])
    if part.tables:
        return part
    return replace(catalog, tables=tuple(_narrowed(table, ()) for table in catalog.tables))


def subset(catalog: Catalog, columns: Sequence[str]) -> Catalog:
    """The tables that `columns` name, each with those columns and its keys, and the tables that
    connect two of them, with their keys."""
    chosen = _chosen(catalog, columns)
    for table in catalog.tables:
        targets = {key.table.lower() for key in _keys(table)}
        if table.name.lower() not in chosen and len(targets & chosen.keys()) > 1:
            chosen[table.name.lower()] = set()
    tables = (
        _narrowed(table, chosen[table.name.lower()], chosen)
        for table in catalog.tables
        if table.name.lower() in chosen
    )
    return replace(catalog, tables=tuple(tables))


def _chosen(catalog: Catalog, columns: Sequence[str]) -> dict[str, set[str]]:
    """The names of `columns` by table, small; names that the catalog does not have are left out."""
    chosen: dict[str, set[str]] = {}
    for path in columns:
        whole = catalog.table(path)
        if whole is not None:
            every = {column.name.lower() for column in whole.columns}
            chosen.setdefault(whole.name.lower(), set()).update(every)
            continue
        table_name, _, column_name = path.partition(".")
        table = catalog.table(table_name)
        column = table.column(column_name) if table is not None else None
        if table is not None and column is not None:
            chosen.setdefault(table.name.lower(), set()).add(column.name.lower())
    return chosen


def _narrowed(
    table: Table, columns: Collection[str], tables: Collection[str] | None = None
) -> Table:
    """The table with `columns` and its keys; foreign keys to `tables` only, if given."""
    kept = [key for key in _keys(table) if tables is None or key.table.lower() in tables]
    names = {name.lower() for name in (*table.primary_key, *(n for k in kept for n in k.columns))}
    names |= set(columns)
    return replace(
        table,
        columns=tuple(column for column in table.columns if column.name.lower() in names),
        foreign_keys=tuple(key for key in table.foreign_keys if key in kept),
        inferred_keys=tuple(key for key in table.inferred_keys if key in kept),
    )


def _keys(table: Table) -> tuple[ForeignKey, ...]:
    return (*table.foreign_keys, *table.inferred_keys)
