"""The names in a catalog, ready for many look-ups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hexgen_celery.sql.catalog import Catalog, ForeignKey, Table

ROWID_NAMES = frozenset({"rowid", "oid", "_rowid_"})
SCHEMA_TABLES = ("sqlite_master", "sqlite_schema")
SCHEMA_COLUMNS = ("type", "name", "tbl_name", "rootpage", "sql")


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key between two tables, seen from either side, in matching order of columns."""

    table: str
    columns: tuple[str, ...]
    other: str
    other_columns: tuple[str, ...]


class SchemaNames:
    """Tables, columns and links by name; look-ups ignore the case of ASCII letters as SQLite does.

    Built once per version of a catalog, because every check needs it.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._tables = {table.name.lower(): table for table in catalog.tables}
        self._holders: dict[str, list[str]] = {}
        for table in catalog.tables:
            for column in table.columns:
                self._holders.setdefault(column.name.lower(), []).append(table.name)
        self.links = tuple(
            link
            for table in catalog.tables
            for key in (*table.foreign_keys, *table.inferred_keys)
            for link in self._links(table.name, key)
        )

    @property
    def tables(self) -> tuple[str, ...]:
        """Every table's and view's name, in the catalog's order."""
        return tuple(table.name for table in self.catalog.tables)

    def columns(self, table: str) -> tuple[str, ...] | None:
        """The columns of `table`, or None when there is no such table."""
        known = self._tables.get(table.lower())
        if known is not None:
            return tuple(column.name for column in known.columns)
        return SCHEMA_COLUMNS if table.lower() in SCHEMA_TABLES else None

    def table(self, name: str) -> Table | None:
        """The table of that name."""
        return self._tables.get(name.lower())

    def holders(self, column: str) -> tuple[str, ...]:
        """The tables that have a column of that name."""
        return tuple(self._holders.get(column.lower(), ()))

    def every_column(self) -> Iterable[tuple[str, str]]:
        """Each (table, column) of the database."""
        return (
            (table.name, column.name) for table in self.catalog.tables for column in table.columns
        )

    def links_between(self, table: str, other: str) -> tuple[Link, ...]:
        """The foreign keys that connect two tables, seen from the first."""
        pair = (table.lower(), other.lower())
        return tuple(
            link for link in self.links if (link.table.lower(), link.other.lower()) == pair
        )

    def _links(self, table: str, key: ForeignKey) -> Iterable[Link]:
        target = self.table(key.table)
        if target is None or len(key.columns) != len(key.references):
            return
        yield Link(table, key.columns, target.name, key.references)
        yield Link(target.name, key.references, table, key.columns)
