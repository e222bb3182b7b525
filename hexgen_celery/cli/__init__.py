"""The command `hexgen`: its entry, which imports little before it can be interrupted in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexgen_celery.cli.interrupt import Interrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (0, 2 for a user's error, 70 for one of ours, 130)."""
    try:
        with Interrupt(raising=True) as interrupt:
            from hexgen_celery.cli.frame import run

            interrupt.check()
        return run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
