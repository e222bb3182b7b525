"""A small database with awkward names, as SQLite and as a catalog."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hexgen_celery.sql.check import Prepared, StatementChecker
from hexgen_celery.sql.checking.diagnosis import Diagnosis, diagnose
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.descriptions import Descriptions
from hexgen_celery.sql.execution import DatabaseFile
from hexgen_celery.sql.profiling import profile_database

SCRIPT = """
CREATE TABLE county (id INTEGER PRIMARY KEY, name TEXT, region TEXT);
CREATE TABLE school (
  code TEXT PRIMARY KEY, county_id INTEGER REFERENCES county (id), City TEXT, opened TEXT,
  `Charter School (Y/N)` INTEGER, `Free Meal Count (K-12)` REAL, `order` INTEGER
);
CREATE TABLE score (
  code TEXT REFERENCES school (code), subject TEXT, points INTEGER, takers INTEGER
);
CREATE VIEW good AS SELECT code, points FROM score WHERE points > 500;
CREATE VIRTUAL TABLE remark USING fts5 (body);
INSERT INTO county VALUES (1, 'Alameda', 'Bay'), (2, 'Fresno', 'Valley');
INSERT INTO school VALUES
  ('A1', 1, 'Oakland', '1980-07-01', 1, 10.5, 1), ('F1', 2, 'Fresno', '1999-09-01', 0, 3, 2);
INSERT INTO score VALUES ('A1', 'math', 600, 30), ('F1', 'math', 450, 20), ('F1', 'read', 510, 21);
"""


class School:
    """The database opened, with everything that checks need."""

    def __init__(self, path: Path) -> None:
        self.file = DatabaseFile(str(path))
        self.connection = sqlite3.connect(path)
        self.connection.executescript(SCRIPT)
        self.connection.commit()
        self.catalog = profile_database(self.file, "school", Descriptions())
        self.names = SchemaNames(self.catalog)

    def compile(self, sql: str) -> str:
        """SQLite's error for the statement, "" when it compiles."""
        try:
            self.connection.execute(f"EXPLAIN {sql}").close()
        except (sqlite3.Error, sqlite3.Warning) as error:
            return str(error)
        return ""

    def diagnose(self, sql: str) -> Diagnosis:
        """What is wrong with it."""
        return diagnose(sql, self.names, self.compile)

    def prepare(self, sql: str, *, repairs: bool = True) -> Prepared:
        """The statement checked and repaired."""
        return StatementChecker(self.names, self.compile, repairs=repairs).prepare(sql)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """What the statement returns."""
        return self.connection.execute(sql).fetchall()
