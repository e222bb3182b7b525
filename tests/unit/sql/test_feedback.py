"""What a model is told about a faulty statement."""

from __future__ import annotations

import pytest

from tests.unit.sql.school_schema import School


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        (
            "SELECT nme FROM county",
            ("no such column: nme at SELECT nme FROM county", "nearest: county.name"),
        ),
        ("SELECT points FROM county", ("score, good have it: join the right one",)),
        ("SELECT region FROM score", ("county has it: join it",)),
        (
            "SELECT x.y FROM school s",
            ("x is no table of this query at SELECT x.y FROM", "it has s (school)"),
        ),
        ("SELECT school.y FROM school s", ("it is called s here",)),
        ("SELECT 1 FROM scool", ("no such table: scool", "nearest: school")),
        ("SELECT 1 FROM qqqqq", ("the tables are: county, school, score, good",)),
        ("SELECT STDEV(points) FROM score", ("no such function: STDEV", "one of its own")),
        ("SELECT code FROM school, score", ("ambiguous column name: code", "school, score, good")),
        ("SELECT 1 FROM county WHERE", ("incomplete input", "breaks off")),
        ("SELECT 1 +* 2 FROM county", ('near "*": syntax error at SELECT 1 +* 2',)),
        ("SELECT 1 WHERE count(*) > 1", ("misuse of aggregate", "HAVING")),
        ("DROP TABLE school", ("only reading is allowed, not DROP",)),
        ('SELECT "Charter School" FROM school', ("nearest: school.`Charter School (Y/N)`",)),
    ],
)
def test_the_place_and_the_right_names_are_told(
    school: School, sql: str, parts: tuple[str, ...]
) -> None:
    problem = school.prepare(sql, repairs=False).problem
    for part in parts:
        assert part in problem


def test_one_fault_is_told_once_and_all_faults_are_told(school: School) -> None:
    problem = school.prepare("SELECT aaaa, bbbb FROM county WHERE aaaa = 1", repairs=False).problem
    assert problem.count("no such column: aaaa") == 1
    assert problem.count("no such column: bbbb") == 1


def test_feedback_is_bounded_whatever_the_statement_holds(school: School) -> None:
    names = ", ".join(f'"{"x" * 500}{number}"' for number in range(50))
    assert len(school.prepare(f"SELECT {names} FROM county", repairs=False).problem) < 4_000
