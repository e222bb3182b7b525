"""The measures of one scope of the ledger, read again and again by a router."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

MEASURES = (
    "waiting",
    "running",
    "prefill_tokens",
    "output_tokens",
    "context_tokens",
    "prefill_us",
    "decode_us",
)
Measured = tuple[int, int, int, int, int, int, int]
IDLE: Measured = (0, 0, 0, 0, 0, 0, 0)


class LedgerGauge:
    """The ledger's measures of one scope; the numbers are read again where they changed.

    A ledger that was read once must not change: the next one is another mapping.
    """

    __slots__ = ("_fields", "_last", "_load", "_texts")

    def __init__(self, scope: str) -> None:
        self._fields = tuple(f"{scope}:{name}" for name in MEASURES)
        self._texts: tuple[str | None, ...] = ()
        self._last = IDLE
        self._load: Mapping[str, str] | None = None

    def read(self, load: Mapping[str, str]) -> Measured:
        """In the order of `MEASURES`."""
        if load is self._load:
            return self._last
        self._load = load
        texts = tuple(map(load.get, self._fields))
        if texts != self._texts:
            self._texts = texts
            self._last = cast("Measured", tuple(int(text or 0) for text in texts))
        return self._last
