"""Statistics of columns, foreign keys that nobody declared, and the catalog as prompt text."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from hexgen_celery.sql.catalog import Catalog, Column, ForeignKey, Table
from hexgen_celery.sql.catalog_keys import InferenceRules, with_inferred_keys
from hexgen_celery.sql.descriptions import Descriptions
from hexgen_celery.sql.execution import DatabaseFile
from hexgen_celery.sql.profiling import ProfilingBounds, profile_database
from hexgen_celery.sql.profiling_statistics import StatisticsBounds, common_shapes, shape
from hexgen_celery.sql.schema_prompt import schema_prompt

Profile = Callable[..., Catalog]


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    def run(script: str, bounds: ProfilingBounds | None = None) -> Catalog:
        path = tmp_path / "some.sqlite"
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as connection:
            connection.executescript(script)
        connection.close()
        return profile_database(DatabaseFile(str(path)), "some", Descriptions(), bounds)

    return run


def column(catalog: Catalog, table: str, name: str) -> Column:
    found = catalog.table(table)
    assert found is not None
    wanted = found.column(name)
    assert wanted is not None
    return wanted


def keys(catalog: Catalog, table: str) -> tuple[ForeignKey, ...]:
    found = catalog.table(table)
    assert found is not None
    return found.inferred_keys


def test_counts_range_and_shape_of_every_column(profile: Profile) -> None:
    catalog = profile(
        "CREATE TABLE t (day TEXT, n REAL, b BLOB, word TEXT);"
        "INSERT INTO t VALUES ('2024-01-05', 3, x'00', 'blue'), ('2023-11-30', NULL, x'01', ''),"
        " ('2024-01-05', 1.5, NULL, 'dark red');"
    )
    day, number, blob, word = (column(catalog, "t", name) for name in ("day", "n", "b", "word"))
    assert (day.nulls, day.distinct, day.minimum, day.maximum) == (0, 2, "2023-11-30", "2024-01-05")
    assert day.shapes == ("9999-99-99",)
    assert day.samples == ("2024-01-05", "2023-11-30")
    assert (number.nulls, number.distinct, number.minimum, number.maximum) == (1, 2, 1.5, 3.0)
    assert (blob.nulls, blob.distinct, blob.minimum, blob.samples) == (1, 2, None, ())
    assert (word.shapes, word.minimum) == ((), "blue")
    assert all(each.whole for each in (day, number, blob, word))


def test_only_the_first_rows_of_a_large_table_are_read(profile: Profile) -> None:
    script = (
        "CREATE TABLE t (n INTEGER); WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c"
        " WHERE n < 500) INSERT INTO t SELECT n FROM c;"
    )
    bounds = ProfilingBounds(statistics=StatisticsBounds(rows=100))
    catalog = profile(script, bounds)
    found = column(catalog, "t", "n")
    assert (found.distinct, found.maximum, found.whole) == (100, 100, False)
    assert catalog.rows == 500


def test_shapes_tell_forms_not_words() -> None:
    bounds = StatisticsBounds()
    assert shape("AB-12 x9") == "A-99 a9"
    assert common_shapes(["A1", "B2", "C3", "hello"], bounds) == ("A9",)
    assert common_shapes(["Main Street 5", "Side Road 7"], bounds) == ()
    assert common_shapes(["1" * 99], bounds) == ()
    assert common_shapes([], bounds) == ()


def test_references_are_inferred_from_names_and_values(profile: Profile) -> None:
    catalog = profile(
        "CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT);"
        "CREATE TABLE player (player_code TEXT PRIMARY KEY, team_id INT, team INT, age INT);"
        "CREATE TABLE goal (id INTEGER PRIMARY KEY, player_code TEXT, team_id INTEGER);"
        "INSERT INTO teams VALUES (1, 'a'), (2, 'b');"
        "INSERT INTO player VALUES ('x1', 1, 7, 1), ('x2', 2, 8, 2), ('x3', NULL, 9, 1);"
        "INSERT INTO goal VALUES (1, 'x1', 1), (2, 'x2', 99);"
    )
    assert keys(catalog, "player") == (ForeignKey(("team_id",), "teams", ("id",)),)
    assert keys(catalog, "goal") == (ForeignKey(("player_code",), "player", ("player_code",)),)
    assert keys(catalog, "teams") == ()
    assert Catalog.from_json(catalog.to_json()) == catalog
    assert "-- probably: FOREIGN KEY (team_id) REFERENCES teams (id)" in schema_prompt(catalog)


def test_of_two_equal_keys_the_smaller_table_refers_to_the_larger(profile: Profile) -> None:
    catalog = profile(
        "CREATE TABLE more (code TEXT, cds TEXT PRIMARY KEY);"
        "CREATE TABLE some (cds TEXT PRIMARY KEY);"
        "INSERT INTO more VALUES ('x', 'a'), ('x', 'b'); INSERT INTO some VALUES ('a');"
    )
    assert keys(catalog, "some") == (ForeignKey(("cds",), "more", ("cds",)),)
    assert keys(catalog, "more") == ()


def test_declared_keys_are_not_inferred_again(profile: Profile) -> None:
    catalog = profile(
        "CREATE TABLE a (id INTEGER PRIMARY KEY);"
        "CREATE TABLE b (a_id INTEGER REFERENCES a (id)); INSERT INTO a VALUES (1);"
        "INSERT INTO b VALUES (1);"
    )
    assert keys(catalog, "b") == ()


def test_the_number_of_comparisons_is_bounded() -> None:
    asked = []

    def inclusion(*pair: str) -> float:
        asked.append(pair)
        return 1.0

    tables = tuple(
        Table(f"t{number}", (Column("code", primary_key=1), Column("ref")), rows=1)
        for number in range(9)
    )
    wide = Table("wide", tuple(Column(f"t{number}_code") for number in range(9)), rows=5)
    with_inferred_keys(Catalog("d", (*tables, wide)), inclusion, InferenceRules(comparisons=4))
    assert len(asked) == 4


def test_the_prompt_tells_what_the_values_shown_do_not(profile: Profile) -> None:
    rows = ", ".join(f"('2024-01-{day:02}', {day}, 'L', NULL)" for day in range(1, 29))
    text = schema_prompt(
        profile(f"CREATE TABLE t (d TEXT, n INTEGER, k TEXT, e TEXT); INSERT INTO t VALUES {rows}")
    )
    assert "form 9999-99-99; '2024-01-01' to '2024-01-28'; 28 different" in text
    assert "1 to 28; 28 different" in text
    assert "k TEXT, -- values 'L'\n" in text
    assert "e TEXT -- 0 different; 28 NULL" in text
