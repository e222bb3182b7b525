"""Labels whose values others choose (tenants, say) must not become metrics without end. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

OTHER: Final = "other"


class BoundedLabel:
    """At most `most` values of a label, then `other`.

    `declared` ones always keep their own. A value that was shown once stays shown, so that no
    counter ever falls. Not thread-safe, which costs at worst one value more per thread.
    """

    def __init__(self, most: int, declared: Iterable[str] = ()) -> None:
        self._shown = set(declared)
        self._most = max(most, len(self._shown))

    def __call__(self, value: str) -> str:
        """`value`, or `other` where there is no room for it."""
        if value in self._shown:
            return value
        if len(self._shown) >= self._most:
            return OTHER
        self._shown.add(value)
        return value
