"""Time as a dependency: the live system, the emulator and the simulator differ only here."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds on some monotonically non-decreasing axis."""

    def now(self) -> float:
        """Return the current time in seconds."""
        ...


class WallClock:
    """Unix time, for anything that is compared between machines."""

    def now(self) -> float:
        return time.time()


class SteadyClock:
    """Seconds since some moment: for waits of one process, which must not jump when the machine's
    time is set."""

    def now(self) -> float:
        return time.monotonic()


class ScaledClock:
    """A clock that runs `speed` times faster than real time, from zero at its creation."""

    def __init__(self, speed: float = 1.0) -> None:
        if speed <= 0:
            raise ValueError(f"speed must be greater than 0, got {speed}")
        self.speed = speed
        self._origin = time.monotonic()

    def now(self) -> float:
        return (time.monotonic() - self._origin) * self.speed


class ManualClock:
    """A clock that moves only when told to; for tests and virtual time."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward by `seconds` (≥ 0)."""
        if seconds < 0:
            raise ValueError(f"a clock cannot go back ({seconds} s)")
        self._now += seconds
