"""Keeping the log of a program that holds its file open from filling the disk."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import structlog

logger = structlog.get_logger(__name__)

MEBIBYTE = 1_048_576


@dataclass(frozen=True, slots=True)
class RotatedLog:
    """A log with its `keep` predecessors `.1` (the latest) to `.N`; `most_bytes` of each.

    The program must open the file for appending: it is copied and then cut to nothing, so that the
    program's next line begins the fresh file. What it writes in between is lost.
    """

    path: Path
    most_bytes: int = 32 * MEBIBYTE
    keep: int = 3

    def tend(self) -> None:
        """Rotate when the file has become too large."""
        if self._size() > self.most_bytes:
            self.rotate()

    def rotate(self) -> None:
        """Begin a fresh file; does nothing where there is none or it is empty.

        On a disk without room for a copy the lines are dropped: what the log is of goes on.
        """
        if not self._size():
            return
        try:
            self._keep_copy()
        except OSError as error:
            logger.warning("a log is dropped", log=str(self.path), why=str(error))
            self._numbered(1).unlink(missing_ok=True)
        with self.path.open("r+b") as file:
            file.truncate(0)

    def _keep_copy(self) -> None:
        for number in range(self.keep - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        shutil.copyfile(self.path, self._numbered(1))

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
