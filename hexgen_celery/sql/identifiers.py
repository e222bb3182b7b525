"""SQLite identifiers as text: quoted when, and only when, they must be."""

from __future__ import annotations

import re

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
KEYWORD_LIST = """
abort action add after all alter always analyze and as asc attach autoincrement before begin between
by cascade case cast check collate column commit conflict constraint create cross current
current_date current_time current_timestamp database default deferrable deferred delete desc detach
distinct do drop each else end escape except exclude exclusive exists explain fail filter first
following for foreign from full generated glob group groups having if ignore immediate in index
indexed initially inner insert instead intersect into is isnull join key last left like limit match
materialized natural no not nothing notnull null nulls of offset on or order others outer over
partition plan pragma preceding primary query raise range recursive references regexp reindex
release rename replace restrict returning right rollback row rows savepoint select set table temp
temporary then ties to transaction trigger unbounded union unique update using vacuum values view
virtual when where window with without
"""
KEYWORDS = frozenset(KEYWORD_LIST.split())


def needs_quotes(name: str) -> bool:
    """Whether SQLite could misread `name` without quotes."""
    return PLAIN.match(name) is None or name.lower() in KEYWORDS


def quote_always(name: str) -> str:
    """`name` in backticks: unlike a misspelt "name", a misspelt `name` never becomes a string."""
    return "`" + name.replace("`", "``") + "`"


def quote(name: str) -> str:
    """`name` as it can stand in SQL, with backticks only where they are needed."""
    return quote_always(name) if needs_quotes(name) else name
