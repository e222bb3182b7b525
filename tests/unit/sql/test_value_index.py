"""The index of stored texts: what is in it, how it is searched, and how its files are kept."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hexgen_celery.sql.catalog import Catalog, Column, Table
from hexgen_celery.sql.descriptions import Descriptions
from hexgen_celery.sql.execution import DatabaseFile
from hexgen_celery.sql.profiling import profile_database
from hexgen_celery.sql.retrieval import retrieve
from hexgen_celery.sql.sources import Fingerprint
from hexgen_celery.sql.value_index import ValueIndex, build_value_index
from hexgen_celery.sql.value_index_cuts import ValueIndexBounds, indexed_columns
from hexgen_celery.sql.value_index_files import ValueIndexFiles, index_version

SCRIPT = """
CREATE TABLE place (id TEXT PRIMARY KEY, name TEXT, zip TEXT, notes TEXT, size INTEGER);
CREATE TABLE person (first TEXT, last TEXT, born TEXT);
INSERT INTO place VALUES
  ('rec0Si5cQ4rJRVzd6', 'Fresno County Office of Education', '93650', 'x', 1),
  ('rec0akZnLLpGUloLH', 'Reykjavík', '00101', 'a long note', 2),
  ('rec0dZPcWXF0QjNnE', 'CA', '1', NULL, 3);
INSERT INTO person VALUES ('Maya', 'Mclean', '1990-01-02'), ('Amy', 'Firth', '1991-03-04'),
  ('Amy', 'O''Neil "Ace"', '1991-03-04');
"""


@pytest.fixture
def file(tmp_path: Path) -> DatabaseFile:
    path = tmp_path / "places.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(SCRIPT)
        notes = [(f"{'long ' * 30}{number}",) for number in range(3)]
        connection.executemany("INSERT INTO place (notes) VALUES (?)", notes)
    connection.close()
    return DatabaseFile(str(path))


@pytest.fixture
def catalog(file: DatabaseFile) -> Catalog:
    return profile_database(file, "places", Descriptions())


@pytest.fixture
def index(file: DatabaseFile, catalog: Catalog, tmp_path: Path) -> ValueIndex:
    build_value_index(file, catalog, tmp_path / "some.values")
    return ValueIndex(tmp_path / "some.values")


def found(index: ValueIndex, *keywords: str) -> list[tuple[str, str]]:
    return [(each.column, each.value) for each in index.search(keywords)]


@pytest.mark.parametrize(
    ("keyword", "expected"),
    [
        ("reykjavík", ("name", "Reykjavík")),
        ("Reykjavik", ("name", "Reykjavík")),
        ("Fresno county", ("name", "Fresno County Office of Education")),
        ("Fresno Conty Ofice of Education", ("name", "Fresno County Office of Education")),
        ("ca", ("name", "CA")),
        ("MCLEAN", ("last", "Mclean")),
        ('o\'neil "ace"', ("last", 'O\'Neil "Ace"')),
    ],
)
def test_values_are_found_as_they_are_stored(
    index: ValueIndex, keyword: str, expected: tuple[str, str]
) -> None:
    assert found(index, keyword)[0] == expected


def test_several_keywords_share_one_answer(index: ValueIndex) -> None:
    assert found(index, "Maya Mclean", "firth") == [
        ("last", "Firth"),
        ("first", "Maya"),
        ("last", "Mclean"),
    ]
    assert found(index, "nothing like this", "", "  ", "zz") == []


def test_numbers_generated_keys_and_prose_are_left_out(index: ValueIndex, catalog: Catalog) -> None:
    assert {each[1].name for each in indexed_columns(catalog)} == {"name", "notes", "first", "last"}
    assert found(index, "93650", "rec0Si5cQ4rJRVzd6", "1990-01-02") == []
    assert found(index, "long " * 30 + "1") == [("notes", "a long note")]


def test_the_index_is_cut_to_size(file: DatabaseFile, catalog: Catalog, tmp_path: Path) -> None:
    target = tmp_path / "cut.values"
    build_value_index(file, catalog, target, ValueIndexBounds(column_values=1, values=2))
    with sqlite3.connect(target) as connection:
        assert connection.execute("SELECT count(*) FROM value").fetchone() == (2,)
        assert ("Amy",) in connection.execute("SELECT text FROM value").fetchall()
    connection.close()


def test_building_reports_progress_and_leaves_one_file(
    file: DatabaseFile, catalog: Catalog, tmp_path: Path
) -> None:
    before = Path(file.path).read_bytes()
    seen: list[tuple[str, int, int]] = []
    home = tmp_path / "home"
    build_value_index(file, catalog, home / "a.values", progress=lambda *each: seen.append(each))
    assert [each.name for each in home.iterdir()] == ["a.values"]
    assert seen[0][1:] == (0, 4)
    assert seen[-1] == ("", 4, 4)
    assert Path(file.path).read_bytes() == before


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(keyword=st.text(max_size=30))
def test_any_keyword_can_be_searched(index: ValueIndex, keyword: str) -> None:
    assert all(0.0 < each.score <= 1.0 for each in index.search([keyword]))


def test_a_new_version_replaces_the_old_file(
    file: DatabaseFile, catalog: Catalog, tmp_path: Path
) -> None:
    files = ValueIndexFiles(tmp_path / "home")
    assert files.build("places", "a" * 16, file, catalog)
    assert files.build("places.other", "a" * 16, file, catalog)
    opened = files.open("places", "a" * 16, file, lambda: catalog)
    assert opened is not None
    assert files.open("places", "a" * 16, file, lambda: catalog) is opened
    newer = files.open("places", "b" * 16, file, lambda: catalog)
    assert newer is not None
    assert not files.path("places", "a" * 16).exists()
    assert newer.search(["maya"])
    files.remove("places")
    left = [each.name for each in (tmp_path / "home").iterdir()]
    assert left == [f"places.other.{'a' * 16}.values"]


def test_without_an_index_there_are_still_columns(catalog: Catalog, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a directory should be")
    files = ValueIndexFiles(blocked)
    gone = DatabaseFile(str(tmp_path / "gone.sqlite"))
    assert files.open("places", "a" * 16, gone, lambda: catalog) is None
    answer = retrieve(catalog, None, ["the zip of a place", 7])
    assert answer["indexed"] is False
    assert answer["values"] == []
    assert answer["columns"][0] == "place.zip"


def test_versions_differ_with_the_file() -> None:
    first, second = Fingerprint(1, 2), Fingerprint(1, 3)
    assert index_version("x", first) != index_version("x", second)
    assert index_version("x", first) == index_version("x", Fingerprint(1, 2))


def test_columns_are_found_by_words_of_names_and_descriptions() -> None:
    catalog = Catalog(
        "d",
        (
            Table("city", (Column("id"), Column("pop", description="number of inhabitants"))),
            Table("country", (Column("id"), Column("GDPTotal", title="gross product"))),
        ),
    )
    assert retrieve(catalog, None, ["inhabitant"])["columns"] == ["city.pop"]
    assert retrieve(catalog, None, ["total gdp of countries"])["columns"][0] == "country.GDPTotal"
    assert retrieve(catalog, None, ["nothing"])["columns"] == []
