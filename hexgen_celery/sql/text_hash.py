"""Named texts that all processes share: what the registry of databases is kept in."""

from __future__ import annotations

from typing import Any, Protocol


class TextHash(Protocol):
    """A hash of texts by name; `RedisHash` is the one in use."""

    def get(self, field: str) -> str | None:
        """The text under `field`, or None."""
        ...

    def put(self, field: str, text: str) -> None:
        """Store the text under `field`."""
        ...

    def names(self) -> list[str]:
        """Every field, in any order."""
        ...

    def delete(self, field: str) -> None:
        """Forget the field, if it is there."""
        ...


class RedisHash:
    """One Redis hash, through any client with redis-py's hash commands."""

    def __init__(self, client: Any, key: str) -> None:
        self._client = client
        self._key = key

    def get(self, field: str) -> str | None:
        value = self._client.hget(self._key, field)
        return None if value is None else _text(value)

    def put(self, field: str, text: str) -> None:
        self._client.hset(self._key, field, text)

    def names(self) -> list[str]:
        return [_text(name) for name in self._client.hkeys(self._key)]

    def delete(self, field: str) -> None:
        self._client.hdel(self._key, field)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else value
