"""The Redis program that an embedded cluster would run, as the worker side finds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hexgen_celery.errors import MissingPrerequisite

_FINDER = "workers.redis_binary"


def find_redis_program() -> Path:
    """The program's path.

    Raises:
        MissingPrerequisite: there is none; the message says how to install it.
    """
    found = subprocess.run(
        [sys.executable, "-m", _FINDER], capture_output=True, text=True, check=False
    )
    if found.returncode:
        raise MissingPrerequisite(found.stderr.strip().splitlines()[-1], field="redis-server")
    return Path(found.stdout.strip())
