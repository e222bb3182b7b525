"""What is found wrong with a statement before it runs, and what is left alone."""

from __future__ import annotations

import pytest

from hexgen_celery.sql.checking.complaints import Cause, read_complaint
from hexgen_celery.sql.checking.nearness import is_near_miss, similarity, suggestions_for
from hexgen_celery.sql.checking.unknown_names import Kind
from tests.unit.sql.school_schema import School

SOUND = (
    "SELECT City FROM school",
    'SELECT "City" FROM school WHERE "Charter School (Y/N)" = 1',
    'SELECT code FROM school WHERE City = "Fresno"',
    'SELECT code FROM school WHERE "Fresno" = City',
    'SELECT code FROM school WHERE City IN ("Fresno", "Oakland")',
    'SELECT CASE WHEN City = "Fresno" THEN "yes" ELSE "no" END FROM school',
    'SELECT strftime("%Y", opened) || "!" FROM school',
    'SELECT group_concat(City, "; ") FROM school',
    'SELECT code FROM school WHERE City LIKE "F%" OR opened BETWEEN "1980" AND "1990"',
    "SELECT rowid, _rowid_, oid FROM school",
    "SELECT name FROM sqlite_master WHERE type = 'table'",
    "SELECT points AS p FROM score WHERE p > 3 GROUP BY p HAVING p > 4 ORDER BY p",
    "SELECT c.name FROM county c WHERE EXISTS (SELECT 1 FROM school s WHERE s.county_id = c.id)",
    "WITH best (k, v) AS (SELECT code, max(points) FROM score GROUP BY code) SELECT k, v FROM best",
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3) SELECT x FROM n",
    "SELECT q.* , q.city FROM (SELECT * FROM school) AS q WHERE q.opened > '1'",
    "SELECT City FROM school UNION SELECT name FROM county ORDER BY City",
    "SELECT value FROM school, json_each('[1]') WHERE value = 1",
    "SELECT rank FROM (SELECT rank() OVER (ORDER BY points) AS rank FROM score)",
    "SELECT (SELECT max(points) FROM score WHERE score.code = school.code) FROM school",
    "VALUES (1), (2)",
    "SELECT good.points FROM good",
    "SELECT body, rank FROM remark WHERE remark MATCH 'late' ORDER BY rank",
    "SELECT r.body FROM remark AS r JOIN school ON r.body = City",
)


@pytest.mark.parametrize("sql", SOUND)
def test_sound_statements_pass(school: School, sql: str) -> None:
    diagnosis = school.diagnose(sql)
    assert diagnosis.sound, diagnosis
    assert school.prepare(sql).sql == sql
    assert school.prepare(sql).problem == ""


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ('SELECT "Cty" FROM school', "Cty"),
        ("SELECT code FROM school WHERE \"Cty\" = 'Fresno'", "Cty"),
        ('SELECT code FROM school ORDER BY "opned"', "opned"),
        ('SELECT code FROM school GROUP BY "whatever this is"', "whatever this is"),
        ('SELECT max("nothing near") FROM school', "nothing near"),
        ('SELECT s.code FROM school s JOIN county c ON s.code = "cde"', "cde"),
        ('SELECT code FROM school WHERE City = "Citty"', "Citty"),
    ],
)
def test_names_that_sqlite_takes_for_texts_are_found(school: School, sql: str, name: str) -> None:
    assert school.compile(sql) == ""
    (unknown,) = school.diagnose(sql).unknown
    assert unknown.name == name
    assert sql[unknown.start : unknown.end] == f'"{name}"'


def test_every_unknown_name_is_told_with_its_place(school: School) -> None:
    sql = "SELECT s.nme, t.x, pints FROM school s JOIN scores ON 1 WHERE s.town = 'x'"
    diagnosis = school.diagnose(sql)
    assert [(each.kind, each.name) for each in diagnosis.unknown] == [
        (Kind.COLUMN, "nme"),
        (Kind.QUALIFIER, "t"),
        (Kind.TABLE, "scores"),
        (Kind.COLUMN, "town"),
    ]
    assert all(sql[each.start : each.end] == each.name for each in diagnosis.unknown)
    assert diagnosis.complaint is not None
    assert diagnosis.faults > len(diagnosis.unknown)


def test_a_query_in_from_does_not_see_its_neighbours(school: School) -> None:
    sql = "SELECT 1 FROM county c JOIN (SELECT nme FROM score) s ON 1"
    (unknown,) = school.diagnose(sql).unknown
    assert [source.alias for source in unknown.visible] == ["score"]


@pytest.mark.parametrize(
    ("message", "cause", "subject"),
    [
        ("no such column: T1.a b", Cause.NO_COLUMN, "T1.a b"),
        ("no such table: x", Cause.NO_TABLE, "x"),
        ("no such function: YEAR", Cause.NO_FUNCTION, "YEAR"),
        ("the function load_extension is not allowed", Cause.NO_FUNCTION, "load_extension"),
        ("wrong number of arguments to function length()", Cause.ARGUMENTS, "length"),
        ("ambiguous column name: id", Cause.AMBIGUOUS, "id"),
        ('near "FROM": syntax error', Cause.SYNTAX, "FROM"),
        ('unrecognized token: "\'x"', Cause.TOKEN, "'x"),
        ("incomplete input", Cause.INCOMPLETE, ""),
        ("misuse of aggregate: COUNT()", Cause.AGGREGATE, "COUNT"),
        ("something new", Cause.OTHER, ""),
    ],
)
def test_sqlites_messages_are_read(message: str, cause: Cause, subject: str) -> None:
    complaint = read_complaint(message)
    assert (complaint.cause, complaint.subject) == (cause, subject)


def test_similarity_ignores_case_and_punctuation() -> None:
    assert similarity("free_meal_count_k_12", "Free Meal Count (K-12)") == 1.0
    assert similarity("Nmae", "Name") > similarity("Nope", "Name")
    assert similarity("count free meals", "Free Meal Count") > 0.7
    assert is_near_miss("ctiy", ["City"])
    assert not is_near_miss("Fresno", ["City", "opened"])


def test_the_own_table_is_suggested_before_others(school: School) -> None:
    sql = "SELECT s.cod FROM score x JOIN school s ON s.code = x.code"
    (unknown,) = school.diagnose(sql).unknown
    first, second, *_ = suggestions_for(unknown, school.names)
    assert (first.source, first.column) == ("s", "code")
    assert (second.source, second.column) == ("x", "code")
