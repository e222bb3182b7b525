"""Fits change a sound statement only where the stored values or the hint show what was meant."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.descriptions import read_descriptions
from hexgen_celery.sql.execution import DatabaseFile
from hexgen_celery.sql.fitting.fitter import Fitted, Fitter
from hexgen_celery.sql.fitting.select_list import item_spans
from hexgen_celery.sql.fitting.spelling import spellings_query
from hexgen_celery.sql.guard import check_statement
from hexgen_celery.sql.profiling import profile_database

SCHEMA = """
CREATE TABLE member (id INTEGER PRIMARY KEY, first_name TEXT, last_name TEXT, city TEXT,
  joined TEXT, visits INTEGER, paid REAL);
CREATE TABLE fee (member_id INTEGER REFERENCES member(id), amount INTEGER);
INSERT INTO member VALUES
  (1, 'Ada', 'Moen', 'Bergen', '2019-09-09', 3, 1.5),
  (2, 'Bo', 'Lie', 'bergen ', '2019-09-10', 4, 2.0),
  (3, 'Cy', 'Dahl', 'OSLO', '2020-01-31', 5, 4.0);
INSERT INTO fee VALUES (1, 5), (2, 10), (3, 20);
"""


@pytest.fixture(scope="module")
def fitter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fitter]:
    """A fitter over a small real file."""
    path: Path = tmp_path_factory.mktemp("club") / "club.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        catalog = profile_database(DatabaseFile(str(path)), "club", read_descriptions(path))

        def compile_statement(sql: str) -> str:
            try:
                connection.execute(f"EXPLAIN {sql}")
            except sqlite3.Error as error:
                return str(error)
            return ""

        def spellings(table: str, column: str, text: str) -> tuple[str, ...]:
            rows = connection.execute(spellings_query(table, column, text)).fetchall()
            return tuple(str(row[0]) for row in rows)

        yield Fitter(SchemaNames(catalog), compile_statement, spellings)


@pytest.mark.parametrize(
    ("sql", "fitted"),
    [
        ("SELECT id FROM member WHERE city = 'Oslo'", "'OSLO'"),
        ("SELECT id FROM member m WHERE 'oslo' = m.city", "'OSLO'"),
        ("SELECT id FROM member WHERE first_name IN ('ada', 'Bo')", "'Ada'"),
        ("SELECT SUM(CASE WHEN last_name = 'moen' THEN 1 ELSE 0 END) FROM member", "'Moen'"),
        ("SELECT id FROM member WHERE joined = '9/9/2019'", "'2019-09-09'"),
    ],
)
def test_a_text_is_written_as_the_column_has_it(fitter: Fitter, sql: str, fitted: str) -> None:
    found = fitter.fit(sql)
    assert found.rules == ("stored_spelling",)
    assert fitted in found.sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM member WHERE city = 'Bergen'",  # stored as it is
        "SELECT id FROM member WHERE city = 'BERGEN'",  # two spellings are stored
        "SELECT id FROM member WHERE city = 'Paris'",  # stored nowhere
        "SELECT id FROM member WHERE joined = '9/31/2019'",  # no such day
        "SELECT id FROM member WHERE joined = '9/11/2019'",  # that day is not stored
        "SELECT id FROM member WHERE city LIKE 'oslo'",  # ignores case anyway
        "SELECT id FROM member WHERE UPPER(city) = 'oslo'",  # not the column itself
        "SELECT c FROM (SELECT city AS c FROM member) WHERE c = 'oslo'",  # a derived column
    ],
)
def test_a_text_stays_where_it_is_not_certain_what_was_meant(fitter: Fitter, sql: str) -> None:
    assert fitter.fit(sql) == Fitted(sql)


@pytest.mark.parametrize(
    ("sql", "fitted"),
    [
        (
            "SELECT SUM(amount) / COUNT(*) FROM fee",
            "SELECT CAST(SUM(amount) AS REAL) / COUNT(*) FROM fee",
        ),
        (
            "SELECT (SELECT COUNT(*) FROM fee) / 2",
            "SELECT CAST((SELECT COUNT(*) FROM fee) AS REAL) / 2",
        ),
        (
            "SELECT f.amount * 100 / m.visits FROM fee f, member m",
            "SELECT f.amount * CAST(100 AS REAL) / m.visits FROM fee f, member m",
        ),
        (
            "SELECT m.visits / 2 / 3 FROM member m",
            "SELECT CAST(m.visits AS REAL) / 2 / 3 FROM member m",
        ),
        (
            "SELECT CASE WHEN visits > 3 THEN 1 ELSE 0 END / COUNT(id) FROM member",
            "SELECT CAST(CASE WHEN visits > 3 THEN 1 ELSE 0 END AS REAL) / COUNT(id) FROM member",
        ),
        (
            "SELECT (SUM(IIF(visits > 3, 1, 0)) / COUNT(DISTINCT city)) * 100.0 FROM member",
            "SELECT (CAST(SUM(IIF(visits > 3, 1, 0)) AS REAL) / COUNT(DISTINCT city)) * 100.0"
            " FROM member",
        ),
    ],
)
def test_a_ratio_of_integers_keeps_its_fraction(fitter: Fitter, sql: str, fitted: str) -> None:
    assert fitter.fit(sql) == Fitted(fitted, ("true_division",))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT paid / visits FROM member",
        "SELECT 100.0 * visits / 3 FROM member",
        "SELECT CAST(visits / 2 AS INTEGER) FROM member",
        "SELECT joined / 10 FROM member",
        "SELECT AVG(visits) / 2 FROM member",
        "SELECT n / 2 FROM (SELECT COUNT(*) AS n FROM member)",
    ],
)
def test_other_divisions_stay(fitter: Fitter, sql: str) -> None:
    assert fitter.fit(sql) == Fitted(sql)


HINT = "full name refers to first_name, last_name"


@pytest.mark.parametrize(
    ("sql", "fitted"),
    [
        (
            "SELECT first_name || ' ' || last_name AS full_name, city FROM member",
            "SELECT first_name, last_name, city FROM member",
        ),
        (
            "SELECT DISTINCT (m.first_name || ', ' || m.last_name) FROM member m",
            "SELECT DISTINCT m.first_name, m.last_name FROM member m",
        ),
        (
            "SELECT first_name || ' ' || last_name AS n, SUM(visits) FROM member GROUP BY n",
            "SELECT first_name, last_name, SUM(visits) FROM member GROUP BY first_name, last_name",
        ),
        (
            "SELECT first_name || last_name AS n, visits FROM member ORDER BY visits DESC, n",
            "SELECT first_name, last_name, visits FROM member ORDER BY visits DESC, "
            "first_name, last_name",
        ),
    ],
)
def test_columns_that_the_hint_names_are_not_glued(fitter: Fitter, sql: str, fitted: str) -> None:
    assert fitter.fit(sql, HINT) == Fitted(fitted, ("named_columns",))


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT first_name || ' ' || last_name FROM member", "a full name is one text"),
        ("SELECT first_name || ' ' || last_name FROM member", ""),
        ("SELECT 'Dr ' || first_name || last_name FROM member", HINT),
        ("SELECT first_name || UPPER(last_name) FROM member", HINT),
        (
            "SELECT first_name || last_name AS n FROM member UNION SELECT city FROM member",
            HINT,
        ),
        ("SELECT n FROM (SELECT first_name || last_name AS n FROM member)", HINT),
        ("SELECT first_name || last_name AS n FROM member WHERE n LIKE 'A%'", HINT),
        ("SELECT first_name || last_name, SUM(visits) FROM member GROUP BY 1", HINT),
        ("SELECT first_name || last_name, visits FROM member ORDER BY 2 DESC", HINT),
        ("SELECT first_name || last_name AS n FROM member ORDER BY n DESC", HINT),
    ],
)
def test_other_texts_stay_whole(fitter: Fitter, sql: str, hint: str) -> None:
    assert fitter.fit(sql, hint) == Fitted(sql)


def test_several_fits_add_up(fitter: Fitter) -> None:
    sql = "SELECT first_name || ' ' || last_name, visits / 2 FROM member WHERE city = 'Oslo'"
    found = fitter.fit(sql, HINT)
    assert found.rules == ("stored_spelling", "true_division", "named_columns")
    assert found.sql == (
        "SELECT first_name, last_name, CAST(visits AS REAL) / 2 FROM member WHERE city = 'OSLO'"
    )


@pytest.mark.parametrize(
    ("sql", "items"),
    [
        ("SELECT a, f(b, c) AS x FROM t", ["a", "f(b, c) AS x"]),
        ("WITH w AS (SELECT 1, 2) SELECT ALL (SELECT a FROM w), b;", ["(SELECT a FROM w)", "b"]),
        ("SELECT 1 UNION SELECT 2", []),
    ],
)
def test_items_of_the_select_list_are_found_in_the_text(sql: str, items: list[str]) -> None:
    tree = check_statement(sql).tree
    assert tree is not None
    assert [sql[slice(*span)] for span in item_spans(sql, tree)] == items
