"""Log lines of a command go to standard error: what it prints may be read by a program."""

from __future__ import annotations

import sys


def to_standard_error() -> None:
    """Send them there, unless something else was arranged; loads nothing that is not loaded.

    Why: without a word from us structlog prints, in the middle of a command's JSON.
    """
    structlog = sys.modules.get("structlog")
    if structlog is not None and not structlog.is_configured():
        structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
