"""Opening SQLite files for reading, and the rules that bind a model's SQL.

Standard library only: the sandbox program imports this module and must start in milliseconds.
`mode=ro` alone does not stop ATTACH, VACUUM INTO, temporary objects or `PRAGMA query_only=0`; the
authorizer's allow-list does.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3

SAFE_PATH_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~")
WAL_VERSION_OFFSET = 18
WAL_FORMAT = 2

SQLITE_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 500,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 25_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 32,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 100,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
"""Every BIRD and Spider gold statement compiles under these.

Tables may be as wide as SQLite allows, and a chain of OR is as deep as it is long."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SCALAR_FUNCTIONS = _names(
    "abs ceil ceiling char coalesce concat concat_ws floor format glob hex if ifnull iif instr "
    "length like likelihood likely lower ltrim match nullif octet_length printf quote random "
    "replace round rtrim sign soundex substr substring trim trunc typeof unhex unicode unistr "
    "unlikely upper acos acosh asin asinh atan atan2 atanh cos cosh degrees exp ln log log10 log2 "
    "mod pi pow power radians sin sinh sqrt tan tanh"
)
DATE_FUNCTIONS = _names(
    "current_date current_time current_timestamp date datetime julianday strftime time timediff "
    "unixepoch"
)
AGGREGATE_FUNCTIONS = _names(
    "avg count group_concat max median min percentile percentile_cont percentile_disc string_agg "
    "sum total"
)
WINDOW_FUNCTIONS = _names(
    "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank "
    "row_number"
)
JSON_FUNCTIONS = _names(
    "-> ->> json json_array json_array_length json_error_position json_extract json_group_array "
    "json_group_object json_insert json_object json_patch json_quote json_remove json_replace "
    "json_set json_type json_valid"
)
FULL_TEXT_FUNCTIONS = _names("bm25 highlight offsets snippet")
ALLOWED_FUNCTIONS = (
    SCALAR_FUNCTIONS
    | DATE_FUNCTIONS
    | AGGREGATE_FUNCTIONS
    | WINDOW_FUNCTIONS
    | JSON_FUNCTIONS
    | FULL_TEXT_FUNCTIONS
)
TABLE_FUNCTIONS = ("json_each", "json_tree")
SCHEMA_TABLES = frozenset(("sqlite_master", "sqlite_schema"))
STORED_MODULES = re.compile(r"\bUSING\s+(?:fts[345]|rtree|rtree_i32|geopoly)\b", re.IGNORECASE)
"""Virtual tables whose content lies in the file itself."""

ACTION_NAMES = {
    code: name.removeprefix("SQLITE_").replace("_", " ")
    for name, code in vars(sqlite3).items()
    if name.startswith(
        (
            "SQLITE_ALTER",
            "SQLITE_ANALYZE",
            "SQLITE_ATTACH",
            "SQLITE_CREATE",
            "SQLITE_DELETE",
            "SQLITE_DETACH",
            "SQLITE_DROP",
            "SQLITE_INSERT",
            "SQLITE_PRAGMA",
            "SQLITE_REINDEX",
            "SQLITE_SAVEPOINT",
            "SQLITE_TRANSACTION",
            "SQLITE_UPDATE",
        )
    )
}


def decode_text(raw: bytes) -> str:
    """Text as it is shown: invalid UTF-8, which real files contain, becomes U+FFFD."""
    return raw.decode("utf-8", "replace")


def read_only_uri(path: str, immutable: bool) -> str:
    """The `file:` URI that opens `path` read-only, whatever characters the path holds."""
    quoted = "".join(
        chr(byte) if byte in SAFE_PATH_BYTES else f"%{byte:02X}"
        for byte in path.encode("utf-8", "surrogateescape")
    )
    return f"file:{quoted}?mode=ro" + ("&immutable=1" if immutable else "")


def is_wal_file(path: str) -> bool:
    """Whether the header says write-ahead log: opening it plainly creates files beside it.

    Raises:
        OSError: if the file cannot be read.
    """
    with open(path, "rb") as file:
        header = file.read(WAL_VERSION_OFFSET + 2)
    return WAL_FORMAT in header[WAL_VERSION_OFFSET:]


def open_read_only(path: str, immutable: bool, heap_bytes: int = 0) -> sqlite3.Connection:
    """Open a database for reading, with sorting in memory so that no file is ever written.

    `heap_bytes` > 0 bounds SQLite's memory in this whole process, for good.

    Raises:
        sqlite3.OperationalError: if the file cannot be opened, or is a WAL database that was not
            declared immutable (opening it would create `-wal` and `-shm` beside it).
    """
    try:
        live_wal = not immutable and is_wal_file(path)
    except OSError as error:
        raise sqlite3.OperationalError(f"unable to open database file: {error.strerror}") from error
    if live_wal:
        raise sqlite3.OperationalError("the database changed to WAL mode and must be refreshed")
    connection = sqlite3.connect(
        read_only_uri(path, immutable),
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=0,
        timeout=5.0,
    )
    connection.text_factory = decode_text
    for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "temp_store=MEMORY", "mmap_size=0"):
        connection.execute(f"PRAGMA {pragma}").close()
    if heap_bytes > 0:
        connection.execute(f"PRAGMA hard_heap_limit={heap_bytes}").close()
    return connection


class Rules:
    """The authorizer's allow-list for one connection, and why it last said no."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        for name in TABLE_FUNCTIONS:
            # An eponymous table registers itself on first use, which the rules would deny later.
            connection.execute(f"SELECT 1 FROM {name}('[]')").close()
        _connect_virtual_tables(connection)
        names = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        self._tables = {str(row[0]).lower() for row in names} | SCHEMA_TABLES | set(TABLE_FUNCTIONS)
        self.reason = ""
        for category, value in SQLITE_LIMITS.items():
            connection.setlimit(category, value)
        connection.set_authorizer(self._authorize)

    def _authorize(
        self,
        action: int,
        first: str | None,
        second: str | None,
        _schema: str | None,
        _by: str | None,
    ) -> int:
        self.reason = self.reason or self._objection(action, first or "", second or "")
        return sqlite3.SQLITE_DENY if self.reason else sqlite3.SQLITE_OK

    def _objection(self, action: int, first: str, second: str) -> str:
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return ""
        if action == sqlite3.SQLITE_READ:
            # Without a column (as in count(*)) SQLite also reports the names of CTEs.
            known = not second or first.lower() in self._tables
            return "" if known else f"the table {first} is not part of the database"
        if action == sqlite3.SQLITE_PRAGMA and (first, second) == ("data_version", ""):
            # A full-text table asks for it whenever it is read.
            return ""
        if action == sqlite3.SQLITE_FUNCTION:
            allowed = second.lower() in ALLOWED_FUNCTIONS
            return "" if allowed else f"the function {second} is not allowed"
        name = ACTION_NAMES.get(action, f"action {action}")
        return f"only reading is allowed, not {name} {first}".rstrip()


def _connect_virtual_tables(connection: sqlite3.Connection) -> None:
    """Let virtual tables declare themselves, which the rules would take for a change of the schema.

    One that cannot be connected (a broken index) stays unreadable.
    """
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%'"
    ).fetchall()
    for name, sql in rows:
        if STORED_MODULES.search(sql):
            quoted = name.replace('"', '""')
            with contextlib.suppress(sqlite3.Error):
                connection.execute(f'SELECT 1 FROM "{quoted}" LIMIT 0').close()
