"""Ctrl-C while modules are imported and while a command watches."""

from __future__ import annotations

import select
import signal
import threading
import time
import weakref

import pytest

from hexgen_celery.cli.interrupt import Interrupt

PATIENCE = 30.0


class _Thing:
    """Something that a weak reference may point to."""


def test_a_press_waits_to_be_looked_at() -> None:
    with Interrupt(raising=False) as interrupt:
        interrupt.check()
        signal.raise_signal(signal.SIGINT)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                interrupt.check()


def test_a_press_may_cut_short_what_runs() -> None:
    with Interrupt(raising=True), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_press_that_python_drops_is_not_lost() -> None:
    with Interrupt(raising=True) as interrupt:
        thing = _Thing()
        reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
        del thing
        assert reference() is None
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()


def test_a_press_ends_waiting() -> None:
    with Interrupt(raising=False) as interrupt:
        main = threading.main_thread().ident
        assert main is not None
        press = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT))
        press.start()
        began = time.monotonic()
        assert select.select([interrupt], [], [], PATIENCE)[0]
        press.join()
        assert time.monotonic() - began < PATIENCE


def test_afterwards_all_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupt(raising=False):
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
    assert signal.set_wakeup_fd(-1) == -1
