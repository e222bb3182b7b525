"""Deterministic repairs: what is mended, what is left alone, and that the text is only edited."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hexgen_celery.sql.repairs.calls import calls_in
from hexgen_celery.sql.repairs.edits import Edit, apply_edits
from tests.unit.sql.school_schema import School

MENDED = (
    # markdown, typography, English
    ("SELECT county\\_id FROM school", "markdown_escape", "SELECT county_id FROM school"),
    ("SELECT code FROM school WHERE City = ‘Fresno’", "typographic_quote", "'Fresno'"),
    ("SELECT 1 WHERE 'x' = 'Women's Soccer'", "apostrophe", "'Women''s Soccer'"),
    ("SELECT 1 WHERE 'x' = 'Women\\'s Soccer'", "apostrophe", "'Women''s Soccer'"),
    # quotes
    ("SELECT Charter School (Y/N) FROM school", "quote_name", "`Charter School (Y/N)`"),
    ("SELECT s.Free Meal Count (K-12) FROM school s", "quote_name", "s.`Free Meal Count (K-12)`"),
    ("SELECT s.order FROM school s ORDER BY s.order", "quote_keyword", "s.`order`"),
    ('SELECT "school.City" FROM school', "split_quotes", "SELECT school.City FROM"),
    # names
    ('SELECT "Cty" FROM school', "column_name", "SELECT City FROM"),
    ("SELECT free_meal_count_k_12 FROM school", "column_name", "`Free Meal Count (K-12)`"),
    ("SELECT name FROM countys", "table_name", "FROM county"),
    (
        "SELECT c.points FROM county c JOIN score s ON 1",
        "qualifier",
        "SELECT s.points FROM county c",
    ),
    ("SELECT school.City FROM school AS s", "qualifier", "SELECT s.City FROM school AS s"),
    # joins
    (
        "SELECT code FROM school JOIN score ON school.code = score.code",
        "ambiguous_column",
        "SELECT school.code FROM",
    ),
    (
        "SELECT City FROM school WHERE region = 'Bay' ORDER BY City",
        "missing_join",
        "FROM school INNER JOIN county ON school.county_id = county.id WHERE region = 'Bay'",
    ),
    (
        "SELECT s.region FROM school s",
        "missing_join",
        "SELECT county.region FROM school s INNER JOIN county ON s.county_id = county.id",
    ),
    (
        "SELECT code FROM score WHERE code IN (SELECT code FROM school WHERE region = 'Bay')",
        "missing_join",
        "(SELECT code FROM school INNER JOIN county ON school.county_id = county.id WHERE",
    ),
    # dialects
    ("SELECT YEAR(opened) FROM school", "function", "CAST(strftime('%Y', opened) AS INTEGER)"),
    ("SELECT CONCAT(City, ' ', code) FROM school", "function", "(City || ' ' || code)"),
    ("SELECT LEFT(City, 3) FROM school", "function", "substr(City, 1, 3)"),
    ("SELECT DATEDIFF(opened, '1980-01-01') FROM school", "function", "julianday(date(opened))"),
    ("SELECT DATE_FORMAT(opened, '%Y-%i') FROM school", "function", "strftime('%Y-%M', opened)"),
    ("SELECT DIVIDE(sum(points), 2) FROM score", "function", "(CAST(sum(points) AS REAL) / (2))"),
    ("SELECT EXTRACT(YEAR FROM opened) FROM school", "function", "strftime('%Y', opened)"),
    ("SELECT DATE_SUB(opened, INTERVAL 2 MONTH) FROM school", "function", "'-2 months'"),
    ("SELECT code FROM school WHERE City ILIKE 'f%'", "form", "City LIKE 'f%'"),
    ("SELECT TOP 1 code FROM school ORDER BY code;", "form", "ORDER BY code LIMIT 1"),
    ("SELECT code FROM school FETCH FIRST 2 ROWS ONLY", "form", "LIMIT 2"),
    ("SELECT points::REAL FROM score", "form", "CAST(points AS REAL)"),
)


@pytest.mark.parametrize(("sql", "rule", "expected"), MENDED)
def test_what_a_rule_can_mend_is_mended(school: School, sql: str, rule: str, expected: str) -> None:
    prepared = school.prepare(sql)
    assert prepared.problem == ""
    assert rule in prepared.rules
    assert expected in prepared.sql
    school.rows(prepared.sql)
    assert prepared.repairs[0].before == sql
    assert school.prepare(sql, repairs=False).problem


def test_several_repairs_add_up(school: School) -> None:
    sql = (
        "SELECT YEAR(opened), c.regon FROM schools s JOIN county c ON c.id = s.county_id"
        " WHERE s.Charter School (Y/N) = 1"
    )
    prepared = school.prepare(sql)
    assert prepared.problem == ""
    assert school.rows(prepared.sql) == [(1980, "Bay")]
    assert {"function", "table_name", "quote_name"} <= set(prepared.rules)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT nothing_like_it FROM school",
        "SELECT x FROM nowhere",
        "SELECT cde FROM school JOIN score ON 1",
        "SELECT STDDEV(points) FROM score",
        "SELECT DATE_FORMAT(opened, '%W') FROM school",
        "SELECT name FROM county WHERE COUNT(name) > 1",
        "SELECT",
        "SELECT 'x",
        "DELETE FROM school",
        "SELECT 1; SELECT 2",
        "SELECT " + "(" * 400 + "1",
    ],
)
def test_what_no_rule_can_mend_stays_as_it_is(school: School, sql: str) -> None:
    prepared = school.prepare(sql)
    assert prepared.sql == sql
    assert prepared.repairs == ()
    assert prepared.problem


def test_repairs_leave_texts_and_comments_alone(school: School) -> None:
    sql = "SELECT YEAR(opened) -- YEAR(x)\nFROM school WHERE City <> 'YEAR(opened) ILIKE'"
    prepared = school.prepare(sql)
    assert "-- YEAR(x)\n" in prepared.sql
    assert "'YEAR(opened) ILIKE'" in prepared.sql
    assert len(school.rows(prepared.sql)) == 2


WORDS = (
    "SELECT FROM WHERE school score City order YEAR ( ) , . ' \" ` code = 'a' TOP 3 ; -- JOIN ON "
    "Charter School (Y/N) CONCAT EXTRACT IN AND s.x county.region GROUP BY \\ ‘ [ ]"
)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(pieces=st.lists(st.sampled_from(WORDS.split()), max_size=14))
def test_whatever_comes_in_is_sound_or_explained(school: School, pieces: list[str]) -> None:
    prepared = school.prepare(" ".join(pieces))
    if prepared.problem:
        assert prepared.repairs == ()
    else:
        assert school.compile(prepared.sql) == ""


def test_edits_are_made_from_the_end() -> None:
    assert apply_edits("abcdef", [Edit(0, 1, "XX"), Edit(3, 3, "-"), Edit(5, 6, "")]) == "XXbc-de"
    with pytest.raises(ValueError, match="overlaps"):
        apply_edits("abcdef", [Edit(0, 3, "x"), Edit(2, 4, "y")])


def test_calls_are_found_with_their_arguments() -> None:
    calls = list(calls_in("SELECT f(a, g(b, ')'), 'x,y'), now()"))
    assert [(call.name, call.arguments) for call in calls] == [
        ("f", ("a", "g(b, ')')", "'x,y'")),
        ("g", ("b", "')'")),
        ("now", ()),
    ]
    assert list(calls_in("SELECT f('")) == []
