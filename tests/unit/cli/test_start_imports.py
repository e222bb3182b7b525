"""What a command imports before it says anything: its start is most of what its user waits for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from hexgen_celery.settings import Settings, StoreSettings
from hexgen_celery.store.engine import open_store
from hexgen_celery.store.models import Base
from hexgen_celery.store.writing import StoreWriter
from tests.unit.store.question_samples import question

SECONDS = 60.0
NOBODY = "redis://127.0.0.1:1/0"
SERVERS = ("alembic", "aiohttp", "celery", "flower", "kombu", "prometheus_client", "psycopg")
COMPUTING = ("matplotlib", "rapidfuzz", "sqlalchemy", "sqlglot", "stages", "tenacity", "workers")
OURS = ("hexgen_celery.workflows", "hexgen_celery.simulator", "hexgen_celery.coordination")
RUN = "from hexgen_celery.cli import main; code = main(sys.argv[1:])"
LOAD = "from hexgen_celery.cli.root import COMMANDS; code = 0; COMMANDS[sys.argv[1]].load()"


def _imported(*arguments: str, program: str = RUN, **environment: str) -> set[str]:
    """The modules that a process has when the command has ended well."""
    program = f"import sys; {program}; print(code, *sys.modules, file=sys.stderr)"
    # Coverage would start in the process too, and import what it needs.
    plain = {name: each for name, each in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**plain, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    code, *names = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stderr
    return set(names)


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """A SQLite store that knows the question `one`."""
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    engine = open_store(Settings(store=StoreSettings(url=SecretStr(url))), writing=True)
    Base.metadata.create_all(engine)
    StoreWriter(engine).write([question("one", 1_700_000_000.0)])
    engine.dispose()
    return url


def test_the_overview_needs_next_to_nothing() -> None:
    found = _imported("--help")
    unwanted = {"asyncio", "pydantic", "redis", "rich", "sqlite3", "importlib.metadata"}
    assert found.isdisjoint((*unwanted, *SERVERS, *COMPUTING, *OURS))


def test_a_trace_from_the_store_needs_no_sqlalchemy(store_url: str) -> None:
    found = _imported("trace", "one", HEXGEN_BROKER__URL=NOBODY, HEXGEN_STORE__URL=store_url)
    assert {"redis", "sqlite3"} <= found
    assert found.isdisjoint((*SERVERS, *COMPUTING, *OURS))


@pytest.mark.parametrize("command", ["instances", "queues", "status", "trace"])
def test_a_command_that_looks_at_redis_needs_no_store(command: str) -> None:
    found = _imported(command, program=LOAD)
    assert "redis" in found
    assert found.isdisjoint(("aiohttp", "alembic", "flower", "psycopg", "sqlalchemy", "sqlglot"))
