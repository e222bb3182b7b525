"""The allow-list that binds a model's SQL, on real connections."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from hexgen_celery.sql.readonly import (
    Rules,
    decode_text,
    is_wal_file,
    open_read_only,
    read_only_uri,
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a b#c?d%.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO item VALUES (1, 'one'), (2, CAST(x'ff41' AS TEXT))")
        connection.execute("CREATE INDEX by_name ON item (name)")
        connection.execute("CREATE VIEW names AS SELECT name FROM item")
        connection.execute('CREATE VIRTUAL TABLE "no""te" USING fts5 (body)')
        connection.execute("INSERT INTO \"no\"\"te\" VALUES ('fragile goods'), ('nothing')")
        connection.execute("CREATE VIRTUAL TABLE box USING rtree (id, low, high)")
        connection.execute("INSERT INTO box VALUES (1, 2.0, 3.0)")
    connection.close()
    return path


@pytest.fixture
def bound(database: Path) -> Iterator[tuple[sqlite3.Connection, Rules]]:
    connection = open_read_only(str(database), immutable=False)
    yield connection, Rules(connection)
    connection.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM item",
        "SELECT * FROM names",
        "VALUES (1, 2)",
        "WITH x AS (SELECT id FROM item) SELECT count(*) FROM x",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5) "
        "SELECT count(*), sum(n) FROM c",
        "SELECT rank() OVER (ORDER BY id), iif(id > 1, 'a', 'b') FROM item",
        "SELECT value FROM json_each('[1, 2]')",
        "SELECT name FROM sqlite_master",
        "SELECT strftime('%Y', '2020-01-01'), julianday('now'), current_timestamp",
        "SELECT '{\"a\": 1}' ->> '$.a', printf('%.2f', 1.234)",
        'SELECT body FROM "no""te" WHERE "no""te" MATCH \'fragile\' ORDER BY rank',
        'SELECT bm25("no""te"), highlight("no""te", 0, \'[\', \']\') FROM "no""te"(\'goods\')',
        "SELECT id FROM box WHERE low < 2.5 AND high > 2.5",
    ],
)
def test_reading_is_allowed(bound: tuple[sqlite3.Connection, Rules], sql: str) -> None:
    connection, rules = bound
    assert connection.execute(sql).fetchall()
    assert rules.reason == ""


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("INSERT INTO item VALUES (3, 'x')", "INSERT"),
        ("UPDATE item SET name = 'x'", "UPDATE"),
        ('INSERT INTO "no""te"("no""te") VALUES (\'optimize\')', "INSERT"),
        ("SELECT * FROM dbstat", "UPDATE sqlite_master"),
        ("DELETE FROM item", "DELETE"),
        ("WITH x AS (SELECT 1) DELETE FROM item", "DELETE"),
        ("DROP TABLE item", "DELETE sqlite_master"),
        ("CREATE TEMP TABLE t (a)", "INSERT sqlite_temp_master"),
        ("ATTACH '/etc/passwd' AS other", "ATTACH"),
        ("VACUUM INTO '/tmp/copy'", "ATTACH"),
        ("PRAGMA query_only = 0", "PRAGMA"),
        ("SELECT * FROM pragma_table_info('item')", "sqlite_master"),
        ("SELECT load_extension('x')", "load_extension"),
        ("SELECT fts3_tokenizer('simple')", "fts3_tokenizer"),
        ("SELECT hex(zeroblob(400000000))", "zeroblob"),
        ("SELECT randomblob(900000000)", "randomblob"),
        ("BEGIN", "TRANSACTION"),
        ("SAVEPOINT a", "SAVEPOINT"),
        ("ANALYZE", "INSERT sqlite_master"),
        ("REINDEX", "REINDEX"),
    ],
)
def test_anything_else_is_denied(
    bound: tuple[sqlite3.Connection, Rules], sql: str, reason: str
) -> None:
    connection, rules = bound
    with pytest.raises(sqlite3.Error):
        connection.execute(sql).fetchall()
    assert reason in rules.reason or sql.startswith("VACUUM")


def test_invalid_utf8_is_shown_as_replacement(bound: tuple[sqlite3.Connection, Rules]) -> None:
    rows = bound[0].execute("SELECT name FROM item WHERE id = 2").fetchall()
    assert rows == [("\ufffdA",)]
    assert decode_text(b"\xff") == "\ufffd"


def test_deep_nesting_is_refused(bound: tuple[sqlite3.Connection, Rules]) -> None:
    with pytest.raises(sqlite3.OperationalError):
        bound[0].execute("SELECT " + "abs(" * 600 + "1" + ")" * 600)


def test_long_chains_and_wide_tables_are_not(tmp_path: Path) -> None:
    path = tmp_path / "wide.sqlite"
    with sqlite3.connect(path) as plain:
        plain.execute(f"CREATE TABLE wide ({', '.join(f'c{n}' for n in range(400))})")
    plain.close()
    connection = open_read_only(str(path), immutable=False)
    Rules(connection)
    chain = " OR ".join(f"c{n} = {n}" for n in range(300))
    assert connection.execute(f"SELECT * FROM wide WHERE {chain}").fetchall() == []
    connection.close()


def test_the_path_may_hold_any_character(tmp_path: Path) -> None:
    assert read_only_uri("/a b?c#d%e", False) == "file:/a%20b%3Fc%23d%25e?mode=ro"
    assert read_only_uri("/é", True) == "file:/%C3%A9?mode=ro&immutable=1"


def test_a_wal_database_is_not_opened_plainly(tmp_path: Path) -> None:
    path = tmp_path / "wal.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    assert is_wal_file(str(path))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(sqlite3.OperationalError, match="WAL"):
        open_read_only(str(path), immutable=False)
    reader = open_read_only(str(path), immutable=True)
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)
    reader.close()
    assert sorted(tmp_path.iterdir()) == before


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        open_read_only(str(tmp_path / "absent.sqlite"), immutable=False)
