"""Warnings about joins without a condition: found where they are, and nowhere else."""

from __future__ import annotations

import pytest
import sqlglot

from hexgen_celery.workflows.answer_detail import warnings_of
from hexgen_celery.workflows.join_check import unconnected_tables
from hexgen_celery.workflows.stage_contract import Attempt


@pytest.mark.parametrize(
    ("sql", "loose"),
    [
        ("SELECT a.x FROM a, b WHERE a.x > 1", ("b",)),
        ("SELECT a.x FROM a, b WHERE a.x = b.y", ()),
        ("SELECT a.x FROM a JOIN b ON a.x = b.y", ()),
        ("SELECT a.x FROM a JOIN b ON a.x = 1", ("b",)),
        ("SELECT a.x FROM a JOIN b USING (x)", ()),
        ("SELECT a.x FROM a NATURAL JOIN b", ()),
        ("SELECT a.x FROM a CROSS JOIN b", ("b",)),
        ("WITH t AS (SELECT MAX(x) AS m FROM a) SELECT a.x FROM a CROSS JOIN t", ()),
        ("SELECT x FROM a, b WHERE x = y", ()),
        ("SELECT T1.x FROM a AS T1 JOIN b AS T2 ON T1.x = T2.y, c AS T3", ("t3",)),
        ("SELECT a.x FROM a, (SELECT MAX(y) AS m FROM b) AS top WHERE a.x = 3", ()),
        ("SELECT x FROM a WHERE x IN (SELECT b.x FROM b, c WHERE b.x = 2)", ("c",)),
        ("SELECT a.x FROM a, b WHERE (a.x = b.x OR a.y = b.y) AND a.z = 1", ()),
        ("SELECT 1", ()),
        ("SELECT x FROM a", ()),
        ("VALUES (1), (2)", ()),
    ],
)
def test_unconnected_tables(sql: str, loose: tuple[str, ...]) -> None:
    assert unconnected_tables(sqlglot.parse_one(sql, read="sqlite")) == loose


def test_warnings_name_what_to_doubt() -> None:
    attempt = Attempt(
        "candidate.1", 0, "SELECT a.x FROM a, b", "ok", row_count=1000, truncated=True
    )
    assert warnings_of(attempt) == [
        "the result was cut at 1000 rows",
        "possible cross join: nothing connects b to the rest",
    ]


@pytest.mark.parametrize("sql", ["SELECT FROM WHERE", "DROP TABLE a"])
def test_sql_that_cannot_be_analysed_gives_no_warning(sql: str) -> None:
    assert warnings_of(Attempt("candidate.1", 0, sql, "ok")) == []
