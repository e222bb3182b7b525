"""Child processes that cannot outlive their parent.

The kernel delivers a "parent death signal" when the *thread* that started the child ends, so every
child of a process is started by one thread that lives as long as the process does. The signal is
armed by a small program in between that then becomes the wanted one, because code between fork and
exec (`preexec_fn`) is not safe beside threads.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO, Any

_ARM_AND_BECOME = """
import ctypes, os, sys
signal_number, parent = int(sys.argv[1]), int(sys.argv[2])
PR_SET_PDEATHSIG = 1
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0) != 0:
    sys.exit("cannot arm the parent death signal")
if os.getppid() != parent:
    sys.exit("the parent has already gone")
os.execvp(sys.argv[3], sys.argv[3:])
"""


@cache
def _spawner() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


def spawn(
    command: Sequence[str],
    *,
    stdin: int | IO[Any] | None = subprocess.DEVNULL,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    death_signal: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Start `command` in its own process group; it gets `death_signal` when this process ends.

    Its own group keeps a Ctrl-C in the terminal from reaching it before its parent decides.
    """
    tether = [sys.executable, "-I", "-S", "-c", _ARM_AND_BECOME]
    arguments = [*tether, str(int(death_signal)), str(os.getpid()), *command]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            arguments,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=dict(environment) if environment is not None else None,
            cwd=directory,
            start_new_session=True,
        )

    return _spawner().submit(start).result()


def stop(process: subprocess.Popen[bytes], *, grace_seconds: float = 5.0) -> int:
    """End `process`: SIGTERM, then SIGKILL after `grace_seconds`. Returns its exit code."""
    if process.poll() is None:
        process.terminate()
    try:
        return process.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def kill_group(leader: int) -> None:
    """End whatever is left of the process group of a child made by `spawn`."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
