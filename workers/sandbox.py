"""The program that runs a model's SQL: `python -m workers.sandbox`, killable at any moment.

It reads framed requests from standard input and answers each on standard output, until the input
ends. It holds no secrets, writes no file, and imports the standard library and three modules of
ours that do the same, so that a fresh one is ready in a few hundredths of a second. What it cannot
stop itself (one long function call inside SQLite) its owner stops by killing it.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

from hexgen_celery.sql.readonly import Rules, open_read_only
from hexgen_celery.sql.wire import (
    LENGTH_BYTES,
    cell_bytes,
    decode_body,
    encode_frame,
    frame_length,
    json_cell,
)
from workers.landlock import give_up_files_and_network

PROGRESS_STEPS = 1_000
OPEN_DATABASES = 4
OPEN_FILES = 32
CPU_GRACE_SECONDS = 3
MAX_ERROR_CHARS = 2_000
DEFAULT_MEMORY_BYTES = 512 * 1024 * 1024
SQLITE_MEMORY_SHARE = 0.5

Answer = dict[str, Any]


class RowTooLarge(Exception):
    """A single row is larger than the whole result may be."""


class Connections:
    """The few databases read last, reopened as soon as a file is another one than before."""

    def __init__(self, heap_bytes: int) -> None:
        self._heap_bytes = heap_bytes
        self._open: dict[tuple[Any, ...], tuple[sqlite3.Connection, Rules]] = {}

    def get(self, path: str, immutable: bool) -> tuple[sqlite3.Connection, Rules]:
        """The open connection to `path` and its rules.

        Raises:
            sqlite3.Error: if the file cannot be opened as a database.
        """
        found = _regular_file(path)
        key = (path, immutable, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if key not in self._open:
            self._make_room(path)
            connection = open_read_only(path, immutable, self._heap_bytes)
            self._open[key] = (connection, Rules(connection))
        self._open[key] = self._open.pop(key)
        return self._open[key]

    def _make_room(self, path: str) -> None:
        stale = [key for key in self._open if key[0] == path]
        oldest = list(self._open)[: max(0, len(self._open) - OPEN_DATABASES + 1)]
        for key in {*stale, *oldest}:
            self._open.pop(key)[0].close()

    def close(self) -> None:
        """Forget every open database."""
        for connection, _rules in self._open.values():
            connection.close()
        self._open.clear()


def _regular_file(path: str) -> os.stat_result:
    """What `path` is; opening a pipe or a device in place of a file could wait for ever.

    Raises:
        sqlite3.OperationalError: if it is no regular file.
    """
    try:
        found = os.stat(path)
    except OSError as error:
        raise sqlite3.OperationalError(f"unable to open database file: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise sqlite3.OperationalError("unable to open database file: it is not a regular file")
    return found


def column_names(cursor: sqlite3.Cursor, byte_limit: int) -> list[str]:
    """The result's header, which a short statement can make as large as any row.

    Raises:
        RowTooLarge: if it is larger than the whole result may be.
    """
    names = [column[0] for column in cursor.description]
    if sum(map(cell_bytes, names)) > byte_limit:
        raise RowTooLarge
    return names


def collect(cursor: sqlite3.Cursor, row_limit: int, byte_limit: int) -> tuple[list[Any], bool]:
    """The rows within both limits, JSON-safe, and whether there were more.

    Raises:
        RowTooLarge: if not even the first row fits.
    """
    rows: list[Any] = []
    size = 0
    for row in cursor:
        size += sum(map(cell_bytes, row))
        if size > byte_limit and not rows:
            raise RowTooLarge
        if len(rows) == row_limit or size > byte_limit:
            return rows, True
        rows.append([json_cell(value) for value in row])
    return rows, False


def classify(error: Exception, reason: str, timed_out: bool) -> tuple[str, str]:
    """The status and the text for a statement that failed with `error`."""
    if reason:
        return "rejected", reason
    if timed_out and "interrupt" in str(error):
        return "timeout", "the statement exceeded its time limit"
    if isinstance(error, RowTooLarge):
        return "too_large", "one row or its header is larger than a whole result may be"
    if isinstance(error, MemoryError):
        return "too_large", "the statement needs more memory than it may use"
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG:
        return "too_large", str(error)
    if "one statement at a time" in str(error):
        return "rejected", "only one statement is allowed"
    return "error", str(error) or type(error).__name__


def run(connection: sqlite3.Connection, rules: Rules, request: dict[str, Any]) -> Answer:
    """Run (or, for `explain`, only compile) one statement within the request's limits."""
    deadline = time.monotonic() + request["seconds"]
    rules.reason = ""
    connection.set_progress_handler(lambda: time.monotonic() >= deadline, PROGRESS_STEPS)
    compile_only = request["op"] == "explain"
    try:
        cursor = connection.execute(("EXPLAIN " if compile_only else "") + request["sql"])
        if cursor.description is None:
            return failed("error", "the text holds no statement")
        if compile_only:
            cursor.close()
            return answer()
        columns = column_names(cursor, request["bytes"])
        rows, truncated = collect(cursor, request["rows"], request["bytes"])
        cursor.close()
    except (sqlite3.Error, sqlite3.Warning, MemoryError, RowTooLarge, ValueError) as error:
        return failed(*classify(error, rules.reason, time.monotonic() >= deadline))
    return answer(columns, rows, truncated)


def answer(
    columns: list[str] | None = None, rows: list[Any] | None = None, truncated: bool = False
) -> Answer:
    """The answer for a statement that ran."""
    return {
        "status": "ok",
        "columns": columns or [],
        "rows": rows or [],
        "truncated": truncated,
        "error": "",
    }


def failed(status: str, error: str) -> Answer:
    """The answer for a statement that gave no rows."""
    shown = error if len(error) <= MAX_ERROR_CHARS else f"{error[:MAX_ERROR_CHARS]}…"
    return {**answer(), "status": status, "error": shown}


def serve_one(connections: Connections, request: dict[str, Any]) -> Answer:
    """Answer one request; whatever fails becomes an answer."""
    started = time.monotonic()
    try:
        connection, rules = connections.get(request["path"], request["immutable"])
        result = run(connection, rules, request)
    except (sqlite3.Error, UnicodeError) as error:
        result = failed("error", str(error))
    except MemoryError as error:
        result = failed(*classify(error, "", False))
    if result["status"] in ("too_large", "timeout"):
        connections.close()
    return {**result, "id": request["id"], "seconds": time.monotonic() - started}


def confine(memory_bytes: int) -> None:
    """Bound this process for good: memory, no file content written, few files, no core file, no
    locked memory, no further process (which root alone could start), no file system to change."""
    for limit, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(limit, (value, value))
    give_up_files_and_network()


def allow_cpu(seconds: float) -> None:
    """Let the kernel end this process when a statement's CPU time outlives an absent owner."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    total = int(used.ru_utime + used.ru_stime + seconds) + CPU_GRACE_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (total, resource.RLIM_INFINITY))


def read_requests(stream: BinaryIO) -> Iterator[dict[str, Any]]:
    """The requests on `stream` until it ends.

    Raises:
        ValueError: if the stream is not made of frames.
    """
    while len(prefix := stream.read(LENGTH_BYTES)) == LENGTH_BYTES:
        yield decode_body(stream.read(frame_length(prefix)))


def write_answer(stream: BinaryIO, result: Answer) -> None:
    """Send one answer; one that cannot be encoded in the memory left becomes `too_large`."""
    try:
        frame = encode_frame(result)
    except (MemoryError, ValueError):
        reduced = failed("too_large", "the result is too large to send")
        frame = encode_frame({**reduced, "id": result["id"], "seconds": result["seconds"]})
    stream.write(frame)
    stream.flush()


def serve(source: BinaryIO, sink: BinaryIO, heap_bytes: int) -> None:
    """Greet, then answer every request until `source` ends."""
    connections = Connections(heap_bytes)
    sink.write(encode_frame({"ready": True, "sqlite": sqlite3.sqlite_version}))
    sink.flush()
    for request in read_requests(source):
        allow_cpu(request["seconds"])
        write_answer(sink, serve_one(connections, request))
    connections.close()


def main(arguments: list[str]) -> None:
    """Entry point; the only argument is the memory limit in bytes."""
    memory_bytes = int(arguments[0]) if arguments else DEFAULT_MEMORY_BYTES
    confine(memory_bytes)
    serve(sys.stdin.buffer, sys.stdout.buffer, int(memory_bytes * SQLITE_MEMORY_SHARE))


if __name__ == "__main__":
    main(sys.argv[1:])
