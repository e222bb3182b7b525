"""A whole cluster, started once for the tests of the command line and the Python API."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hexgen_celery import cli
from hexgen_celery.api import Client
from hexgen_celery.cli.cluster_file import emulated_cluster
from hexgen_celery.cli.local_cluster import LocalCluster
from hexgen_celery.settings import load_settings

READY_SECONDS = 120.0
ALL_CITIES = "SELECT name FROM city ORDER BY name"
BIG_CITIES = "SELECT name FROM city WHERE inhabitants > 1000000"


@dataclass(frozen=True)
class RunningCluster:
    """The cluster's configuration, a database file that it can read, and a client."""

    config: Path
    database: Path
    client: Client

    def hexgen(self, *arguments: str) -> int:
        """Run one command on this cluster, in this process; returns the exit code."""
        return cli.main(["--config", str(self.config), *arguments])


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Emulated servers that know `cities:` `all`, `disputed`, `broken` and `slow`."""
    home = tmp_path_factory.mktemp("cluster")
    database = write_database(home / "cities.sqlite")
    replay = write_replay(home / "replay.jsonl")
    config = home / "hexgen.toml"
    config.write_text(emulated_cluster(home / "up", replay=[replay], speed=50))
    running = LocalCluster(config, home / "up")
    running.start()
    try:
        running.wait_ready(READY_SECONDS)
        with Client(load_settings(config)) as client:
            client.add_database(database)
            yield RunningCluster(config, database, client)
    finally:
        running.stop()


def write_replay(path: Path) -> Path:
    """What the emulated servers answer to the questions about cities."""
    path.write_text("".join(json.dumps(record) + "\n" for record in _records()))
    return path


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    """What the command wrote to standard output, and its last line as JSON."""

    class Shown:
        @property
        def text(self) -> str:
            return capsys.readouterr().out

        @property
        def json(self) -> Any:
            return json.loads(capsys.readouterr().out.strip().splitlines()[-1])

        @property
        def error(self) -> str:
            return capsys.readouterr().err

    return Shown()


def write_database(path: Path) -> Path:
    """Two small tables."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE country (id INTEGER PRIMARY KEY, name TEXT);"
            "CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT, inhabitants INTEGER,"
            " country_id INTEGER REFERENCES country (id));"
            "INSERT INTO country VALUES (1, 'Japan'), (2, 'Iceland');"
            "INSERT INTO city VALUES (1, 'Tokyo', 14000000, 1), (2, 'Nara', 350000, 1),"
            " (3, 'Reykjavík', 140000, 2);"
        )
    return path


def _records() -> Iterator[dict[str, Any]]:
    for key, statements in {
        "cities:all": [ALL_CITIES] * 3,
        "cities:disputed": [ALL_CITIES, ALL_CITIES, BIG_CITIES],
        "cities:broken": ["SELECT name FROM nowhere"] * 3,
        "cities:slow": [ALL_CITIES] * 3,
    }.items():
        slow = {"output_tokens": 25_000} if key.endswith("slow") else {}
        yield _record(key, "schema_linking", "link", "1", _linking()) | slow
        for number, sql in enumerate(statements, 1):
            fenced = f"```sql\n{sql}\n```"
            yield _record(key, "candidate_generation", "candidate", str(number), fenced)
            yield _record(key, "self_correction", "revise", f"{number}.1", fenced)
        yield _record(key, "evaluation", "unit_tests", "1", json.dumps({"tests": ["any"]}))
        choice = json.dumps({"choice": 1, "reason": "the most frequent one"})
        yield _record(key, "evaluation", "choose", "1", choice)


def _linking() -> str:
    return json.dumps({"keywords": [], "tables": ["city"], "columns": ["city.name"]})


def _record(key: str, stage: str, step: str, index: str, completion: str) -> dict[str, Any]:
    return {
        "question": key,
        "stage": stage,
        "step": step,
        "index": index,
        "completion": completion,
    }
