"""What a server was heard of lately: the answers that are awaited, and the last piece of any."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Activity:
    """Written by the event loop alone, read from any thread. Times are seconds of `now`'s clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._begun: dict[object, float] = {}
        self.heard_at = float("-inf")

    @contextmanager
    def awaiting(self) -> Iterator[None]:
        """An answer is awaited while the block runs."""
        key = object()
        self._begun[key] = self._now()
        try:
            yield
        finally:
            del self._begun[key]

    def heard(self) -> None:
        """A piece of an answer came."""
        self.heard_at = self._now()

    @property
    def silent_seconds(self) -> float:
        """For how long answers have been awaited without a piece of any; 0 where none is."""
        begun = list(self._begun.values())
        return self._now() - max(self.heard_at, min(begun)) if begun else 0.0
