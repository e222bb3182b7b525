"""A log that somebody else writes is kept from growing for ever."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from workers.log_rotation import RotatedLog


def _texts(path: Path) -> dict[str, str]:
    return {each.name: each.read_text() for each in path.parent.iterdir()}


def test_a_writer_goes_on_in_the_fresh_file(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    log = RotatedLog(path, most_bytes=5, keep=2)
    with path.open("a") as writer:
        for text in ("first\n", "second\n", "third\n"):
            writer.write(text)
            writer.flush()
            log.tend()
        writer.write("4th\n")
        writer.flush()
        log.tend()
    assert _texts(path) == {
        "server.log": "4th\n",
        "server.log.1": "third\n",
        "server.log.2": "second\n",
    }


def test_nothing_to_rotate_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    log = RotatedLog(path)
    log.tend()
    log.rotate()
    path.write_text("")
    log.rotate()
    assert _texts(path) == {"server.log": ""}


def test_a_new_run_begins_a_fresh_file(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("earlier\n")
    RotatedLog(path).rotate()
    assert _texts(path) == {"server.log": "", "server.log.1": "earlier\n"}


def test_a_full_disk_costs_lines_and_not_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "server.log"
    path.write_text("too long\n")

    def fill(_source: Path, copy: Path) -> None:
        copy.write_text("too")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", fill)
    RotatedLog(path, most_bytes=5).tend()
    assert _texts(path) == {"server.log": ""}
