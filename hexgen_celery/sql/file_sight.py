"""Whether a registered database can be read from here, cheaply."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hexgen_celery.sql.sources import MAGIC

SIGHT: Final = "hexgen_databases"
"""The remote-control command by which sql workers answer for their own files."""


def problem_with(path: Path) -> str:
    """What keeps the SQLite file at `path` from being read; "" for nothing."""
    if not path.is_file():
        return f"no file here at {path}"
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
    except OSError as error:
        return f"{path}: {error.strerror}"
    return "" if head == MAGIC else f"{path} is no SQLite database any more"
