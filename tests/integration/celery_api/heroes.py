"""The small database of these tests, and the model's answer about it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from hexgen_celery.databases import open_databases
from hexgen_celery.keys import Keys
from hexgen_celery.redis_client import connect
from hexgen_celery.settings import Settings

SQL = "SELECT name FROM hero WHERE can_fly = 1 ORDER BY name"
ANSWER = f"Here it is:\n```sql\n{SQL}\n```\n"


def add_heroes(settings: Settings, path: Path) -> None:
    """Make the database at `path` and register it as `heroes`."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE hero (name TEXT, can_fly INTEGER)")
        connection.executemany("INSERT INTO hero VALUES (?, ?)", [("Ada", 1), ("Bo", 0), ("Cy", 1)])
    with connect(settings) as client:
        open_databases(client, Keys(settings.broker.prefix), settings).add(path)
