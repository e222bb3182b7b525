"""Counting the relations of a query with its WITH queries written out."""

from __future__ import annotations

import pytest
import sqlglot

from hexgen_celery.errors import StatementRejected
from hexgen_celery.sql.expansion import expanded_relations
from hexgen_celery.sql.guard import MAX_RELATIONS, check_statement


def doubling(floors: int) -> str:
    floor = ", ".join(f"c{n} AS (SELECT 1 FROM c{n - 1}, c{n - 1} AS o)" for n in range(1, floors))
    return f"WITH c0 AS (SELECT 1), {floor} SELECT count(*) FROM c{floors - 1}"


@pytest.mark.parametrize(
    ("sql", "relations"),
    [
        ("SELECT 1", 0),
        ("SELECT * FROM a JOIN b", 2),
        ("SELECT (SELECT 1 FROM a) FROM b WHERE x IN (SELECT y FROM c)", 3),
        ("WITH a AS (SELECT * FROM t, u) SELECT * FROM a, A AS other", 6),
        ("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c", 2),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a", 3),
    ],
)
def test_relations_are_counted_for_each_use(sql: str, relations: int) -> None:
    assert expanded_relations(sqlglot.parse_one(sql, read="sqlite")) == relations


def test_a_tower_of_queries_is_refused_before_anything_compiles_it() -> None:
    assert check_statement(doubling(5)).tree is not None
    with pytest.raises(StatementRejected, match="more than 1000000 tables") as caught:
        check_statement(doubling(40))
    assert str(MAX_RELATIONS) in caught.value.hint


def test_a_flood_of_joins_is_refused() -> None:
    with pytest.raises(StatementRejected, match="reads 601 tables"):
        check_statement("SELECT 1 FROM t" + ", t" * 600)


def test_a_chain_without_end_is_refused() -> None:
    chain = ",".join(f"c{n} AS (SELECT 1 FROM c{n - 1})" for n in range(1, 900))
    with pytest.raises(StatementRejected, match=r"nested too deeply|tables"):
        check_statement(f"WITH c0 AS (SELECT 1), {chain} SELECT * FROM c899")


def test_a_literal_that_the_parser_chokes_on_is_left_to_sqlite() -> None:
    checked = check_statement(f"SELECT 0x{'f' * 9_000}")
    assert checked.tree is None
    assert checked.problem
