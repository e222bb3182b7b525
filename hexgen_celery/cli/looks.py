"""Looking at a deployment in a thread: a Redis that does not answer keeps nobody from leaving."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from hexgen_celery.closing import Closing
from hexgen_celery.overview import Overview

Read = Callable[[], Overview]


class Looks(Closing):
    """One look for every `ask`; when it is there, `fileno()` is readable until `take` has it.

    `opening` connects, in the thread that reads and disconnects too.
    """

    def __init__(self, opening: Callable[[], AbstractContextManager[Read]]) -> None:
        self._opening = opening
        self._reading, self._writing = os.pipe()
        self._wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[Overview | Exception] = queue.SimpleQueue()
        # A daemon: the program ends while it waits for Redis.
        threading.Thread(target=self._run, name="looks", daemon=True).start()

    def fileno(self) -> int:
        """Readable when a look is there."""
        return self._reading

    def ask(self) -> None:
        """Begin one look; returns at once."""
        self._wanted.put(True)

    def take(self) -> Overview:
        """The look that was asked for, waiting for it.

        Raises:
            Exception: what reading raised, and asking again tries again; or what connecting
                raised, after which there are no more looks.
        """
        os.read(self._reading, 1)
        found = self._found.get()
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        """Let the thread end once its present look, if there is one, does."""
        self._wanted.put(False)
        os.close(self._reading)

    def _run(self) -> None:
        try:
            with self._opening() as read:
                while self._wanted.get():
                    self._tell(_outcome(read))
        except Exception as error:
            self._tell(error)
        finally:
            os.close(self._writing)

    def _tell(self, found: Overview | Exception) -> None:
        self._found.put(found)
        with contextlib.suppress(BrokenPipeError):
            os.write(self._writing, b"!")


def _outcome(read: Read) -> Overview | Exception:
    try:
        return read()
    except Exception as error:
        return error
