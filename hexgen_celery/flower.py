"""Flower on our broker: `python -m hexgen_celery.flower [--port=…] [--address=…] [options]`.

Flower keeps no more tasks in memory than it is told, and drops the oldest: the default here is
enough for a few thousand questions with all their requests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from celery import Celery

from hexgen_celery.app import create_app
from hexgen_celery.errors import HexgenError
from hexgen_celery.settings import Settings, load_settings

MAX_TASKS = 100_000
USER_ERROR = 2


def flower_arguments(options: Sequence[str]) -> list[str]:
    """The arguments of Celery's `flower` command, `options` last so that they win."""
    return ["flower", f"--max-tasks={MAX_TASKS}", "--inspect-timeout=2000", *options]


def flower_app(settings: Settings) -> Celery:
    """The application Flower watches through. Its HTTP API is open unless Flower's own
    authentication options say otherwise, as its pages are."""
    os.environ.setdefault("FLOWER_UNAUTHENTICATED_API", "true")
    return create_app(settings, "client")


def main(options: Sequence[str] | None = None) -> int:
    """Run Flower until a signal stops it."""
    try:
        app = flower_app(load_settings())
    except HexgenError as error:
        sys.stderr.write(f"error: {error}\n")
        return USER_ERROR
    app.start(flower_arguments(sys.argv[1:] if options is None else options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
