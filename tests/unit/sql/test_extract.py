"""Finding the statement in a model's text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.sql.extract import extract_sql, split_statements


@pytest.mark.parametrize(
    ("text", "sql", "source"),
    [
        ("SELECT 1", "SELECT 1", "plain"),
        ("  select a from t ;  ", "select a from t", "plain"),
        ("```sql\nSELECT 1;\n```", "SELECT 1", "fence"),
        ("```SQLite\nSELECT 1\n```\nHope this helps!", "SELECT 1", "fence"),
        ("~~~\nSELECT 1\n~~~", "SELECT 1", "fence"),
        ("Here it is:\n```sql\nSELECT a\nFROM t\n```\nIt works.", "SELECT a\nFROM t", "fence"),
        ("First\n```sql\nSELECT 1\n```\nbetter\n```sql\nSELECT 2\n```", "SELECT 2", "fence"),
        ("```sql\nSELECT 1\n```\n```python\nprint(1)\n```", "SELECT 1", "fence"),
        ("<think>SELECT 0</think>SELECT 1", "SELECT 1", "plain"),
        ("maybe SELECT 0 ...</think>\n```sql\nSELECT 1\n```", "SELECT 1", "fence"),
        ("The query is: SELECT a FROM t", "SELECT a FROM t", "plain"),
        ("SELECT a FROM t;\n\nThis query returns a.", "SELECT a FROM t", "plain"),
        ("SELECT a FROM t\n\nThis query returns a.", "SELECT a FROM t", "plain"),
        ("SELECT a FROM t;\n```", "SELECT a FROM t", "plain"),
        ("SELECT a FROM t;\n\nSELECT", "SELECT a FROM t", "plain"),
        ("SELECT a FROM t;\n-- Question 2\nSELECT b FROM t", "SELECT a FROM t", "plain"),
        ("<sql>SELECT 1</sql>", "SELECT 1", "tag"),
        ("<FINAL_ANSWER>\nSELECT 1", "SELECT 1", "tag"),
        ('{"reasoning": "x", "sql": "SELECT \\"a\\" FROM t"}', 'SELECT "a" FROM t', "json"),
        ("WITH x AS (SELECT 1) SELECT * FROM x", "WITH x AS (SELECT 1) SELECT * FROM x", "plain"),
        ("VALUES (1), (2)", "VALUES (1), (2)", "plain"),
        ("SELECT ';' FROM t -- a; b\n;", "SELECT ';' FROM t -- a; b", "plain"),
        ("-- the answer\nSELECT 1", "SELECT 1", "plain"),
        ("```sql\n-- first;\nSELECT 1 /* ; */\n```", "-- first;\nSELECT 1 /* ; */", "fence"),
        ("```sql\nCREATE TABLE a (b);\nSELECT 1;\nSELECT 2;\n```", "SELECT 2", "fence"),
        ("(SELECT 1) UNION (SELECT 2)", "(SELECT 1) UNION (SELECT 2)", "plain"),
    ],
)
def test_the_statement_meant_is_found(text: str, sql: str, source: str) -> None:
    found = extract_sql(text)
    assert (found.sql, found.source) == (sql, source)


@pytest.mark.parametrize(
    "text",
    ["", "I cannot answer that.", "```python\nprint(1)\n```", "{not json}", "[1]", '{"sql": 3}'],
)
def test_no_statement(text: str) -> None:
    assert extract_sql(text).sql == ""
    assert extract_sql(text).source == "none"


def test_a_cut_answer_is_marked() -> None:
    found = extract_sql("Sure:\n```sql\nSELECT a FROM t WHERE b =")
    assert found.truncated
    assert found.sql == "SELECT a FROM t WHERE b ="
    assert extract_sql("<think>well, SELECT 1").truncated


def test_several_statements_are_counted() -> None:
    assert extract_sql("```sql\nSELECT 1; SELECT 2\n```").statements == 2


def test_a_destructive_cte_is_left_for_the_guard() -> None:
    text = "WITH x AS (SELECT 1) DELETE FROM t"
    assert extract_sql(text).sql == text


@given(st.text())
def test_whatever_is_found_is_a_slice_of_the_text(text: str) -> None:
    found = extract_sql(text)
    assert found.source == "json" or found.sql in text


@given(st.lists(st.sampled_from(["SELECT 'a;b'", 'SELECT ";"', "SELECT `;`", "SELECT [;]"])))
def test_splitting_respects_quotes(statements: list[str]) -> None:
    assert split_statements(";".join(statements)) == statements
