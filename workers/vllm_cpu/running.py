"""Pieces that making the environment and making the models share."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hexgen_celery.errors import HexgenError
from workers.vllm_cpu.errors import PackagesUnavailable

UNAVAILABLE_EXIT = 75
"""EX_TEMPFAIL: what is needed could not be fetched; nothing was found to be wrong with the code."""

_ATTEMPTS = 3
_ATTEMPT_SECONDS = 900.0
_RETRY_SECONDS = 5.0
_NOTE_SECONDS = 20.0
_SHOWN_LINES = 6


def say(text: str) -> None:
    """Tell the person at the terminal how far the work is."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@contextmanager
def noted() -> Iterator[None]:
    """Say now and then that the work of a `with` block goes on: some of it takes minutes."""
    began = time.monotonic()
    ended = threading.Event()

    def note() -> None:
        while not ended.wait(_NOTE_SECONDS):
            say(f"  still at it after {time.monotonic() - began:.0f} s")

    thread = threading.Thread(target=note, name="noting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def tail(text: str) -> str:
    """The last lines of a program's output, for an error message."""
    return " | ".join(line.strip() for line in text.strip().splitlines()[-_SHOWN_LINES:])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock: a second run waits, and then finds the work done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def pip(
    python: Path, arguments: Sequence[str], *, pause: Callable[[float], None] = time.sleep
) -> None:
    """Run one pip command that may fetch packages, again when it fails.

    Raises:
        PackagesUnavailable: every attempt failed or took longer than its time box.
    """
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    cause = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            say(f"  again, because: {cause[:300]}")
            pause(_RETRY_SECONDS * attempt)
        cause = _failure(command)
        if not cause:
            return
    raise PackagesUnavailable(
        f"pip {' '.join(arguments)} failed {_ATTEMPTS} times: {cause}",
        field="pip",
        hint="check the network; behind a mirror, set PIP_INDEX_URL, PIP_EXTRA_INDEX_URL or "
        "PIP_FIND_LINKS (torch must be found in its CPU build)",
    )


def _failure(command: Sequence[str]) -> str:
    try:
        with noted():
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_ATTEMPT_SECONDS
            )
    except subprocess.TimeoutExpired:
        return f"no end after {_ATTEMPT_SECONDS:.0f} s"
    return "" if done.returncode == 0 else tail(done.stderr or done.stdout) or "no output"


def exit_code(work: Callable[[], object]) -> int:
    """Run a program's work; its errors become a message and an exit code (75: not to be had)."""
    try:
        work()
    except PackagesUnavailable as error:
        say(f"error: {error}")
        return UNAVAILABLE_EXIT
    except HexgenError as error:
        say(f"error: {error}")
        return 2
    return 0
