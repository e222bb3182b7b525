"""An index of the texts stored in a database, to find how a question's words are spelt there.

It is a SQLite file of our own beside the other private files, never in the user's database: a
trigram full-text table (FTS5), which finds values by pieces of words, inside longer values and
despite misspellings, ranked by rarity (BM25). Chosen over MinHash-LSH (the same robustness, which
also comes from three-letter pieces, but held in memory and ranked by a second library) and over
bm25s (whole words only): it needs no further dependency, stays on disk, opens in a millisecond, and
is read by any number of processes.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rapidfuzz import fuzz

from hexgen_celery.sql.catalog import Catalog
from hexgen_celery.sql.execution import DatabaseFile
from hexgen_celery.sql.identifiers import quote_always
from hexgen_celery.sql.readonly import open_read_only, read_only_uri
from hexgen_celery.sql.value_index_cuts import ValueIndexBounds, indexed_columns

SCHEMA = """
CREATE TABLE place (id INTEGER PRIMARY KEY, table_name TEXT, column_name TEXT);
CREATE TABLE value (id INTEGER PRIMARY KEY, place INTEGER, text TEXT, folded TEXT, uses INTEGER);
CREATE VIRTUAL TABLE piece USING fts5 (folded, content='', columnsize=0, tokenize='trigram');
"""
PRIVATE_DIRECTORY, PRIVATE_FILE = 0o711, 0o600
PROGRESS_STEPS = 10_000
PIECE_CHARS = 3
_SPACE = re.compile(r"[\s\x00-\x1f\ud800-\udfff]+")

BuildProgress = Callable[[str, int, int], None]
"""Called with a column's name, how many columns are done and how many there are."""


def no_build_progress(_column: str, _done: int, _total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class FoundValue:
    """A stored text that resembles `keyword`. `score` runs from 0 to 1 (equal but for case)."""

    table: str
    column: str
    value: str
    keyword: str
    score: float


@dataclass(frozen=True, slots=True)
class SearchRules:
    """`candidates`: how many values the index is asked for per keyword. `least`: the similarity
    worth telling. `per_keyword`, `total`: how many are told."""

    candidates: int = 60
    least: float = 0.7
    per_keyword: int = 4
    total: int = 24
    pieces: int = 16


def folded(text: str) -> str:
    """The text as it is compared: small letters, single spaces for all that does not show."""
    return _SPACE.sub(" ", text).strip().casefold()


def build_value_index(
    file: DatabaseFile,
    catalog: Catalog,
    target: Path,
    bounds: ValueIndexBounds | None = None,
    progress: BuildProgress = no_build_progress,
) -> None:
    """Write the index of `file` to `target`, which appears at once and whole.

    Raises:
        sqlite3.Error: the database cannot be read, or this SQLite has no trigram index.
        OSError: `target` cannot be written.
    """
    target.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    work = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}.part")
    work.touch(PRIVATE_FILE)
    try:
        with (
            closing(open_read_only(file.path, file.immutable)) as source,
            closing(sqlite3.connect(work, isolation_level=None)) as index,
        ):
            index.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {SCHEMA} BEGIN;")
            _fill(source, index, catalog, bounds or ValueIndexBounds(), progress)
            index.execute("CREATE INDEX value_by_text ON value (folded)")
            index.execute("COMMIT")
        work.replace(target)
    finally:
        work.unlink(missing_ok=True)


def _fill(
    source: sqlite3.Connection,
    index: sqlite3.Connection,
    catalog: Catalog,
    bounds: ValueIndexBounds,
    progress: BuildProgress,
) -> None:
    deadline = time.monotonic() + bounds.seconds
    source.set_progress_handler(lambda: time.monotonic() > deadline, PROGRESS_STEPS)
    columns, room, number = indexed_columns(catalog), bounds.values, 0
    for place, (table, column) in enumerate(columns):
        progress(f"{table}.{column.name}", place, len(columns))
        rows = _values(source, table, column.name, min(room, bounds.column_values), bounds)
        index.execute("INSERT INTO place VALUES (?, ?, ?)", (place, table, column.name))
        entries = [
            (number + n, place, text, folded(text), uses) for n, (text, uses) in enumerate(rows)
        ]
        index.executemany("INSERT INTO value VALUES (?, ?, ?, ?, ?)", entries)
        index.executemany(
            "INSERT INTO piece (rowid, folded) VALUES (?, ?)", ((e[0], e[3]) for e in entries)
        )
        number, room = number + len(entries), room - len(entries)
    progress("", len(columns), len(columns))


def _values(
    source: sqlite3.Connection, table: str, column: str, limit: int, bounds: ValueIndexBounds
) -> Sequence[tuple[str, int]]:
    """The column's texts with letters in them, the most frequent first; none after the deadline."""
    query = (
        f"SELECT v, count(*) FROM (SELECT {quote_always(column)} AS v FROM {quote_always(table)})"
        f" WHERE typeof(v) = 'text' AND length(v) <= {bounds.value_chars}"
        f" AND v GLOB '*[^0-9 .,:/()+-]*' GROUP BY v ORDER BY count(*) DESC, v LIMIT {limit}"
    )
    try:
        return source.execute(query).fetchall()
    except (sqlite3.OperationalError, sqlite3.DataError):
        # An index without this column is worth more than none.
        return []


class ValueIndex:
    """Looks texts up in an index file. Safe from many threads, one look-up at a time."""

    def __init__(self, path: Path, rules: SearchRules | None = None) -> None:
        self._connection = sqlite3.connect(
            read_only_uri(str(path), immutable=True), uri=True, check_same_thread=False
        )
        self._rules = rules or SearchRules()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Give back the file."""
        self._connection.close()

    def search(self, keywords: Iterable[str]) -> list[FoundValue]:
        """The stored values that resemble the keywords, the most similar first.

        One place of a value is told once, for the keyword that it resembles most.
        """
        found: dict[tuple[str, str, str], FoundValue] = {}
        with self._lock:
            for keyword in dict.fromkeys(map(folded, keywords)):
                for each in self._like(keyword)[: self._rules.per_keyword]:
                    place = (each.table, each.column, each.value)
                    if place not in found or found[place].score < each.score:
                        found[place] = each
        return sorted(found.values(), key=_rank)[: self._rules.total]

    def _like(self, keyword: str) -> list[FoundValue]:
        scored = [
            FoundValue(table, column, text, keyword, similarity(keyword, compared))
            for table, column, text, compared in self._rows(keyword)
        ]
        return sorted((each for each in scored if each.score >= self._rules.least), key=_rank)

    def _rows(self, keyword: str) -> Iterator[tuple[str, str, str, str]]:
        select = (
            "SELECT table_name, column_name, text, folded FROM value JOIN place ON place.id = place"
        )
        yield from self._connection.execute(f"{select} WHERE folded = ? LIMIT 20", (keyword,))
        pieces = _pieces(keyword, self._rules.pieces)
        if pieces:
            nearest = "SELECT rowid FROM piece WHERE piece MATCH ? ORDER BY rank LIMIT ?"
            yield from self._connection.execute(
                f"{select} WHERE value.id IN ({nearest})", (pieces, self._rules.candidates)
            )


def _pieces(keyword: str, most: int) -> str:
    """The FTS5 query for any of the keyword's three-letter pieces; "" for a shorter keyword."""
    count = len(keyword) - PIECE_CHARS + 1
    pieces = dict.fromkeys(keyword[place : place + PIECE_CHARS] for place in range(count))
    quoted = (
        '"' + piece.replace('"', '""') + '"' for piece in list(pieces)[:most] if piece.strip()
    )
    return " OR ".join(quoted)


def similarity(keyword: str, value: str) -> float:
    """From 0 to 1 for folded texts; a keyword inside a longer value counts for 0.9 of its fit."""
    whole = fuzz.ratio(keyword, value) / 100
    if len(keyword) < PIECE_CHARS or len(value) < PIECE_CHARS:
        return whole
    words = fuzz.token_set_ratio(keyword, value) / 100
    return max(whole, 0.9 * words)


def _rank(found: FoundValue) -> tuple[float, int, str, str, str]:
    return (-found.score, len(found.value), found.table, found.column, found.value)
