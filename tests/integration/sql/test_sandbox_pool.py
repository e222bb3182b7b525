"""The sandbox pool with real sandbox processes."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hexgen_celery.sql.execution import (
    DatabaseFile,
    ExecuteRequest,
    ExecuteResult,
    StatementLimits,
)
from workers import sandbox_program
from workers.sandbox_pool import SandboxClosed, SandboxPolicy, SandboxPool

pytestmark = pytest.mark.integration

ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(n) FROM c"
ONE_LONG_CALL = "SELECT printf('%.2000000000c', 'x') || printf('%.2000000000c', 'y')"
MEMORY_BOMB = (
    "WITH RECURSIVE c(n, x) AS (SELECT 1, printf('%900000s', 'x') UNION ALL "
    "SELECT n + 1, x || '' FROM c LIMIT 100000) SELECT * FROM c ORDER BY x, n"
)
SAFETY_SECONDS = 20.0


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("database") / "data.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO item VALUES (?, ?)", [(n, f"n{n}") for n in range(100)])
    connection.close()
    return path


@pytest.fixture
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(2) as running:
        yield running


def request_for(
    database: Path, sql: str, seconds: float = 10.0, token: str = "", rows: int = 1_000
) -> ExecuteRequest:
    limits = StatementLimits(seconds=seconds, rows=rows)
    return ExecuteRequest(DatabaseFile(str(database)), sql, limits, token)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition: Callable[[], bool], seconds: float = SAFETY_SECONDS) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_rows_come_back(pool: SandboxPool, database: Path) -> None:
    result = pool.execute(request_for(database, "SELECT id, name FROM item ORDER BY id LIMIT 2"))
    assert result.ok
    assert result.columns == ("id", "name")
    assert result.rows == ([0, "n0"], [1, "n1"])
    assert result.row_count == 2
    assert ExecuteResult.from_json(result.to_json()) == result


def test_programs_are_reused_and_recycled(database: Path) -> None:
    with SandboxPool(1, SandboxPolicy(statements_per_program=3)) as pool:
        pids = []
        for _ in range(4):
            assert pool.execute(request_for(database, "SELECT 1")).ok
            pids.append(pool.pids())
    assert pids[0] == pids[1]
    assert pids[2] == ()
    assert pids[3] != pids[0]


def test_time_limit_leaves_the_program_alive(pool: SandboxPool, database: Path) -> None:
    pool.execute(request_for(database, "SELECT 1"))
    before = pool.pids()
    result = pool.execute(request_for(database, ENDLESS, seconds=0.2))
    assert result.status == "timeout"
    assert pool.pids() == before


def test_one_long_call_is_killed_and_the_program_replaced(
    pool: SandboxPool, database: Path
) -> None:
    pool.execute(request_for(database, "SELECT 1"))
    before = pool.pids()
    result = pool.execute(request_for(database, ONE_LONG_CALL, seconds=0.2))
    assert result.status == "timeout"
    assert pool.execute(request_for(database, "SELECT 1")).ok
    assert not alive(before[0])
    assert pool.pids() != before


def test_memory_is_bounded_and_the_pool_goes_on(database: Path) -> None:
    policy = SandboxPolicy(memory_bytes=256 * 1024 * 1024)
    with SandboxPool(1, policy) as pool:
        result = pool.execute(request_for(database, MEMORY_BOMB, seconds=60))
        assert result.status == "too_large"
        assert pool.execute(request_for(database, "SELECT count(*) FROM item")).rows == ([100],)


@pytest.mark.parametrize("sql", [ENDLESS, ONE_LONG_CALL])
def test_cancel_kills_what_runs(pool: SandboxPool, database: Path, sql: str) -> None:
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(pool.execute, request_for(database, sql, 600, token="w1/0"))
        assert wait_until(lambda: bool(pool.pids()))
        assert pool.cancel("w1/0")
        assert running.result(SAFETY_SECONDS).status == "cancelled"
    assert pool.execute(request_for(database, "SELECT 1")).ok


def test_cancel_reaches_what_still_waits(database: Path) -> None:
    with SandboxPool(1) as pool, ThreadPoolExecutor(2) as threads:
        first = threads.submit(pool.execute, request_for(database, ENDLESS, 600, token="first"))
        assert wait_until(lambda: bool(pool.pids()))
        second = threads.submit(pool.execute, request_for(database, ENDLESS, 600, token="second"))
        assert wait_until(lambda: pool.cancel("second"))
        assert second.result(SAFETY_SECONDS).status == "cancelled"
        assert not first.done()
        assert pool.cancel("first")
        assert first.result(SAFETY_SECONDS).status == "cancelled"
        assert not pool.cancel("first")


def test_a_token_is_used_once_at_a_time(database: Path) -> None:
    with SandboxPool(2) as pool, ThreadPoolExecutor(1) as threads:
        running = threads.submit(pool.execute, request_for(database, ENDLESS, 600, token="same"))
        assert wait_until(lambda: bool(pool.pids()))
        with pytest.raises(ValueError, match="already in progress"):
            pool.execute(request_for(database, "SELECT 1", token="same"))
        pool.cancel("same")
        assert running.result(SAFETY_SECONDS).status == "cancelled"


def test_a_program_that_dies_is_replaced(pool: SandboxPool, database: Path) -> None:
    pool.execute(request_for(database, "SELECT 1"))
    (pid,) = pool.pids()
    os.kill(pid, signal.SIGKILL)
    assert pool.execute(request_for(database, "SELECT 1")).status == "error"
    assert pool.execute(request_for(database, "SELECT 1")).ok


def test_many_threads_share_few_programs(pool: SandboxPool, database: Path) -> None:
    def one(number: int) -> ExecuteResult:
        return pool.execute(request_for(database, f"SELECT name FROM item WHERE id = {number}"))

    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(one, range(100)))
    assert [result.rows for result in results] == [([f"n{n}"],) for n in range(100)]
    assert len(pool.pids()) <= 2


def test_close_ends_running_statements_and_every_program(database: Path) -> None:
    pool = SandboxPool(2)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(pool.execute, request_for(database, ENDLESS, 600))
        assert wait_until(lambda: bool(pool.pids()))
        pids = pool.pids()
        pool.close()
        assert running.result(SAFETY_SECONDS).status == "cancelled"
    assert not any(alive(pid) for pid in pids)
    with pytest.raises(SandboxClosed):
        pool.execute(request_for(database, "SELECT 1"))


def test_the_program_holds_no_secrets_and_ends_with_its_owner(
    pool: SandboxPool, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEXGEN_REDIS_PASSWORD", "secret")
    pool.execute(request_for(database, "SELECT 1"))
    (pid,) = pool.pids()
    assert b"HEXGEN_REDIS_PASSWORD" not in Path(f"/proc/{pid}/environ").read_bytes()
    program = pool._idle[0]
    program._input.close()
    assert program._process.wait(SAFETY_SECONDS) == 0


def test_a_program_that_cannot_start_is_an_error(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SandboxPool(1) as pool:
        monkeypatch.setattr(sys, "executable", "/nonexistent/python")
        assert "cannot start" in pool.execute(request_for(database, "SELECT 1")).error
        monkeypatch.undo()
        monkeypatch.setattr(sandbox_program, "PROGRAM", "workers.absent_program")
        assert pool.execute(request_for(database, "SELECT 1")).status == "error"
        monkeypatch.undo()
        assert pool.execute(request_for(database, "SELECT 1")).ok


def test_nothing_appears_beside_the_file(pool: SandboxPool, database: Path) -> None:
    def state() -> tuple[list[str], str]:
        names = sorted(os.listdir(database.parent))
        return names, hashlib.sha256(database.read_bytes()).hexdigest()

    before = state()
    for sql in (
        "SELECT * FROM item ORDER BY name",
        "INSERT INTO item VALUES (1000, 'x')",
        f"ATTACH '{database.parent}/new.sqlite' AS other",
        f"VACUUM INTO '{database.parent}/copy.sqlite'",
        "PRAGMA journal_mode = WAL",
        "CREATE TEMP TABLE t AS SELECT * FROM item",
    ):
        pool.execute(request_for(database, sql))
    assert state() == before


def test_a_closed_pool_can_be_closed_again() -> None:
    pool = SandboxPool(1)
    pool.close()
    pool.close()
    assert threading.active_count() >= 1


def test_size_must_be_positive() -> None:
    with pytest.raises(ValueError, match="size"):
        SandboxPool(0)
