"""A registry's hash of texts, in memory."""

from __future__ import annotations


class MemoryHash:
    """A `TextHash` in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def get(self, field: str) -> str | None:
        """The text under `field`, or None."""
        return self.texts.get(field)

    def put(self, field: str, text: str) -> None:
        """Store a text that Redis could store too."""
        text.encode("utf-8")
        self.texts[field] = text

    def names(self) -> list[str]:
        """Every field."""
        return list(self.texts)

    def delete(self, field: str) -> None:
        """Forget the field."""
        self.texts.pop(field, None)
