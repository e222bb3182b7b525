"""Flower on our broker: `python -m hexgen_celery.flower [--port=…] [--address=…] [options]`.

Flower keeps no more tasks in memory than it is told, and drops the oldest: the default here is
enough for a few thousand questions with all their requests.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import flower.views

from hexgen_celery.app import create_app
from hexgen_celery.errors import HexgenError
from hexgen_celery.keys import Keys
from hexgen_celery.redis_client import unchecked_client
from hexgen_celery.settings import Settings, load_settings
from hexgen_celery.transport.inspection import QueueInspector

MAX_TASKS = 100_000
USER_ERROR = 2
LOOPBACK = "127.0.0.1"


def flower_arguments(options: Sequence[str]) -> list[str]:
    """The arguments of Celery's `flower` command, `options` last so that they win."""
    defaults = (f"--max-tasks={MAX_TASKS}", "--inspect-timeout=2000", f"--address={LOOPBACK}")
    return ["flower", *defaults, *options]


def open_api_on_loopback(arguments: Sequence[str]) -> None:
    """Let Flower's HTTP API answer without a password when only this machine can reach it.

    On any other address the API stays shut until one of Flower's own authentication options, or
    `FLOWER_UNAUTHENTICATED_API`, opens it.
    """
    addresses = [text.partition("=")[2] for text in arguments if text.startswith("--address=")]
    if addresses[-1] in (LOOPBACK, "localhost", "::1"):
        os.environ.setdefault("FLOWER_UNAUTHENTICATED_API", "true")


class FlowerBroker:
    """Queue lengths for Flower's Broker page and API, which know LLEN alone by themselves."""

    def __init__(self, settings: Settings) -> None:
        client = unchecked_client(settings, decode=False)
        self._inspector = QueueInspector(client, Keys(settings.broker.prefix).queue_root)

    async def queues(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """The messages waiting in each of `names`, as Flower shows them."""
        lengths = await asyncio.to_thread(self._inspector.lengths, list(names))
        return [
            {
                "name": queue.name,
                "messages": queue.waiting,
                "messages_ready": queue.waiting,
                "messages_unacknowledged": queue.running,
            }
            for queue in lengths
        ]


def show_queue_lengths(settings: Settings) -> None:
    """Let Flower ask us for queue lengths, whatever the broker's URL looks like."""
    if settings.broker.transport == "urgency":
        broker = FlowerBroker(settings)
        flower.views.Broker = lambda *_arguments, **_options: broker


def main(options: Sequence[str] | None = None) -> int:
    """Run Flower until a signal stops it."""
    try:
        settings = load_settings()
        app = create_app(settings, "client")
        show_queue_lengths(settings)
    except HexgenError as error:
        sys.stderr.write(f"error: {error}\n")
        return USER_ERROR
    arguments = flower_arguments(sys.argv[1:] if options is None else options)
    open_api_on_loopback(arguments)
    app.start(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
