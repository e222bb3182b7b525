"""What the guard lets through and what it refuses, with the reason."""

from __future__ import annotations

import pytest

from hexgen_celery.errors import StatementRejected
from hexgen_celery.sql.guard import MAX_STATEMENT_CHARS, check_statement


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "SELECT 1;",
        "SELECT 1; -- done",
        "(SELECT 1) UNION ALL SELECT 2",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "VALUES (1, 2)",
        "SELECT `Charter School (Y/N)` FROM frpm",
        "SELECT CAST(x AS DATETIME), replace(a, 'b', 'c') FROM t",
        "SELECT a FROM t WHERE b IN (SELECT c FROM d) ORDER BY 1 LIMIT 1",
        "SELECT (SELECT 1) EXCEPT SELECT 2 INTERSECT SELECT 3",
    ],
)
def test_reading_passes_unchanged(sql: str) -> None:
    checked = check_statement(sql)
    assert checked.sql == sql
    assert checked.tree is not None


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "no statement"),
        ("-- nothing", "no statement"),
        (";", "no statement"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("DROP TABLE t", "DROP"),
        ("INSERT INTO t VALUES (1)", "INSERT"),
        ("UPDATE t SET a = 1", "UPDATE"),
        ("WITH a AS (SELECT 1) DELETE FROM t", "DELETE"),
        ("CREATE TEMP TABLE a AS SELECT 1", "CREATE"),
        ("ALTER TABLE t ADD COLUMN b", "ALTER"),
        ("PRAGMA query_only = 0", "PRAGMA"),
        ("ATTACH 'x' AS y", "ATTACH"),
        ("VACUUM INTO 'x'", "VACUUM"),
        ("REPLACE INTO t VALUES (1)", "only reading"),
        ("BEGIN", "TRANSACTION"),
        ("EXPLAIN SELECT 1", "only reading"),
        ("ANALYZE", "ANALYZE"),
        ("city", "not a query"),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "nested too deeply"),
        ("SELECT '" + "x" * MAX_STATEMENT_CHARS + "'", "characters"),
    ],
)
def test_anything_else_is_refused_with_its_reason(sql: str, reason: str) -> None:
    with pytest.raises(StatementRejected, match=reason) as caught:
        check_statement(sql)
    assert caught.value.hint
    assert caught.value.field == "sql"


def test_what_the_parser_does_not_know_is_left_to_sqlite() -> None:
    checked = check_statement("SELECT a FROM WHERE )")
    assert checked.tree is None
    assert checked.problem
    assert not checked.ordered


def test_the_outer_order_is_seen() -> None:
    assert check_statement("SELECT a FROM t ORDER BY a").ordered
    assert check_statement("SELECT 1 UNION SELECT 2 ORDER BY 1").ordered
    assert not check_statement("SELECT a FROM (SELECT a FROM t ORDER BY a)").ordered
