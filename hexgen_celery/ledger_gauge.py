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
    """The ledger's measures of one scope; the numbers are read again where they changed."""

    __slots__ = ("_fields", "_last", "_texts")

    def __init__(self, scope: str) -> None:
        self._fields = tuple(f"{scope}:{name}" for name in MEASURES)
        self._texts: tuple[str | None, ...] = ()
        self._last = IDLE

    def read(self, load: Mapping[str, str]) -> Measured:
        """In the order of `MEASURES`."""
        texts = tuple(map(load.get, self._fields))
        if texts != self._texts:
            self._texts = texts
            self._last = cast("Measured", tuple(int(text or 0) for text in texts))
        return self._last
