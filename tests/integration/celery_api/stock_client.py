"""A Python that has `celery[redis]` and nothing of ours, and programs run in it."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[3]
HOME = PROJECT / "build" / "celery-client"
REQUIREMENT = "celery[redis]>=5.7,<5.8"
INSTALL_SECONDS = 240.0
RUN_SECONDS = 90.0
DONE = "complete"

_PREAMBLE = """
import json, sys
from celery import Celery
app = Celery("stock", broker=sys.argv[1], backend=sys.argv[1])
"""


@dataclass(frozen=True, slots=True)
class StockClient:
    """Runs client programs on one broker. `python` is the interpreter of the separate venv."""

    python: Path
    broker_url: str
    run_seconds: float = RUN_SECONDS

    def run(self, program: str, directory: Path, *arguments: str) -> Any:
        """Run `program` (it has `app`, and prints one line of JSON last); returns that value."""
        done = subprocess.run(
            [self.python, "-I", "-", self.broker_url, *arguments],
            input=_PREAMBLE + program,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=self.run_seconds,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


def stock_python() -> Path:
    """The interpreter of the separate environment, made once; skips without a package index."""
    home = HOME / f"{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    if not (home / DONE).exists():
        venv.EnvBuilder(with_pip=True, clear=True).create(home)
        _install(python)
        (home / DONE).touch()
    return python


def _install(python: Path) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--retries", "1", REQUIREMENT]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip("no package index answers: cannot install celery[redis] for a stock client")
    if done.returncode != 0:
        pytest.skip(f"cannot install {REQUIREMENT} for a stock client: {done.stderr[-300:]}")
