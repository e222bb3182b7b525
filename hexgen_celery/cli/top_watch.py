"""The two ways of `hexgen top` to watch: on a screen of its own, and line after line."""

from __future__ import annotations

import contextlib
import math
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.live import Live

from hexgen_celery.cli.interrupt import Interrupt
from hexgen_celery.cli.keyboard import Keyboard
from hexgen_celery.cli.looks import Looks, Read
from hexgen_celery.cli.output import console, discard_output, print_json
from hexgen_celery.cli.top_view import render
from hexgen_celery.cluster import resolve_broker
from hexgen_celery.errors import BrokerUnavailable
from hexgen_celery.overview import Overview, OverviewReader
from hexgen_celery.settings import Settings

PLAIN_ROWS = 20
_QUITS = b"qQ"


def opened_looks(settings: Settings, urgent: int) -> Looks:
    """Looks at the deployment in `settings`, with `urgent` waiting requests of each queue."""

    @contextlib.contextmanager
    def opening() -> Iterator[Read]:
        with OverviewReader(resolve_broker(settings)) as reader:
            yield lambda: reader.read(urgent)

    return Looks(opening)


def as_plain(overview: Overview) -> dict[str, Any]:
    """What is shown, as plain values for programs."""
    counts = overview.counts
    return {
        "now": counts.now,
        "instances": [asdict(each) for each in counts.instances],
        "queues": [asdict(pool) for pool in counts.pools],
        "urgent": [asdict(request) for request in overview.urgent],
        "at_risk": [asdict(question) for question in overview.at_risk],
        "tenants": [asdict(tenant) for tenant in counts.tenants],
        "questions_running": counts.questions_running,
        "submissions_waiting": counts.submissions_waiting,
        "outbox": asdict(counts.outbox),
        "leases_overdue": counts.leases_overdue,
        "dead_letters": counts.dead_letters,
        "timers_age_seconds": counts.timers_age_seconds,
        "processes": [asdict(process) for process in counts.processes],
    }


def watch(looks: Looks, interrupt: Interrupt, refresh: float) -> None:
    """Redraw every `refresh` seconds until q; a Redis that went away is said so and looked for.

    Raises:
        BrokerUnavailable: Redis was away from the beginning.
        KeyboardInterrupt: on Ctrl-C, with the terminal as it was.
    """
    with Keyboard() as keyboard, Live(console=console, screen=True, auto_refresh=False) as live:
        desk = _Desk(interrupt, keyboard)
        answered = False
        while True:
            looks.ask()
            if desk.quits(looks):
                return
            answered = _redraw(live, looks, answered)
            if desk.quits(seconds=refresh):
                return


def _redraw(live: Live, looks: Looks, answered: bool) -> bool:
    """Show the look that is there; returns True. An error is shown if Redis `answered` before."""
    try:
        live.update(render(looks.take(), console.height), refresh=True)
    except BrokerUnavailable as error:
        if not answered:
            raise
        live.update(f"{error.message}\nTrying again; q ends this.", refresh=True)
    return True


class _Desk:
    """Where somebody may press q or Ctrl-C while something is waited for."""

    def __init__(self, interrupt: Interrupt, keyboard: Keyboard) -> None:
        self._interrupt = interrupt
        self._keyboard = keyboard
        self._keyboards = [keyboard] if keyboard.is_there else []

    def quits(self, look: Looks | None = None, seconds: float = math.inf) -> bool:
        """Whether q is pressed before `look` is there, or within `seconds`."""
        until = time.monotonic() + seconds
        sources: list[Looks | Keyboard] = [*self._keyboards, *([look] if look else [])]
        while True:
            ready = _wait(self._interrupt, *sources, seconds=until - time.monotonic())
            if self._keyboard in ready and self._wants_to_quit():
                return True
            if look in ready or time.monotonic() >= until:
                return False

    def _wants_to_quit(self) -> bool:
        keys = self._keyboard.keys()
        return not keys or any(key in keys for key in _QUITS)


def print_looks(
    looks: Looks, interrupt: Interrupt, refresh: float, *, once: bool, as_json: bool
) -> None:
    """Print one look, or one every `refresh` seconds.

    Raises:
        BrokerUnavailable: Redis is away.
        KeyboardInterrupt: on Ctrl-C.
    """
    try:
        _print_look(looks, interrupt, as_json)
        while not once:
            _wait(interrupt, seconds=refresh)
            _print_look(looks, interrupt, as_json)
    except KeyboardInterrupt:
        # The reader may not take what is left of this look before it, too, has ended.
        discard_output()
        raise


def _print_look(looks: Looks, interrupt: Interrupt, as_json: bool) -> None:
    looks.ask()
    _wait(interrupt, looks)
    overview = looks.take()
    if as_json:
        print_json(as_plain(overview))
    else:
        console.print(render(overview, PLAIN_ROWS))
    sys.stdout.flush()


def _wait(
    interrupt: Interrupt, *sources: Looks | Keyboard, seconds: float = math.inf
) -> list[Interrupt | Looks | Keyboard]:
    """Wait up to `seconds` for one of `sources`; which of them have something.

    Raises:
        KeyboardInterrupt: on Ctrl-C.
    """
    timeout = None if seconds == math.inf else max(0.0, seconds)
    ready, _, _ = select.select([interrupt, *sources], [], [], timeout)
    interrupt.check()
    return ready
