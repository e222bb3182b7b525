"""Prompt parts: long texts that many requests share, stored once under the hash of their content.

A part lives until the latest end of all workflows that were given a request with it: each such
transition moves its expiry out, never in. That is a lease rather than a count of users on purpose:
a count goes wrong for ever when a process dies between its change and the state it belongs to, or
when a transition is repeated; an expiry can only be too late, and ends by itself.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import redis

from hexgen_celery.errors import HexgenError
from hexgen_celery.keys import Keys
from hexgen_celery.workflows.definition import LlmCall, NodeSpec

SYNTHETIC = "syn:"
CACHED_PARTS = 4096


class MissingPart(HexgenError):
    """Raised when a prompt part that a request refers to is not in Redis."""

    code = "missing_part"


def stored_parts(specs: Iterable[NodeSpec]) -> tuple[str, ...]:
    """The hashes that `specs` refer to and that are stored (synthetic ones are not), each once."""
    hashes = (
        part.hash for spec in specs if isinstance(spec.call, LlmCall) for part in spec.call.parts
    )
    return tuple(dict.fromkeys(name for name in hashes if not name.startswith(SYNTHETIC)))


class PartStore:
    """Reads parts through a cache of this process (texts under a content hash never change)."""

    def __init__(self, client: redis.Redis, keys: Keys, cached: int = CACHED_PARTS) -> None:
        self._client = client
        self._keys = keys
        self._cached = cached
        self._cache: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, hashes: Sequence[str]) -> list[str]:
        """The texts of `hashes`, in order, with at most one round trip.

        Raises:
            MissingPart: one is not stored (any more).
        """
        known = self._cached_texts(hashes)
        absent = [name for name in dict.fromkeys(hashes) if name not in known]
        if absent:
            known.update(self._fetch(absent))
        return [known[name] for name in hashes]

    def put(self, texts: Mapping[str, str], expires_ms: int) -> None:
        """Store `texts` by hash where they are absent, to last until `expires_ms` (Unix ms)."""
        pipeline = self._client.pipeline(transaction=False)
        for name, text in texts.items():
            pipeline.set(self._keys.part(name), _utf8(text), nx=True, pxat=expires_ms)
        pipeline.execute()

    def _cached_texts(self, hashes: Sequence[str]) -> dict[str, str]:
        with self._lock:
            found = {name: self._cache[name] for name in hashes if name in self._cache}
            for name in found:
                self._cache.move_to_end(name)
        return found

    def _fetch(self, hashes: Sequence[str]) -> dict[str, str]:
        values = cast(
            "list[str | None]", self._client.mget([self._keys.part(name) for name in hashes])
        )
        found = {name: text for name, text in zip(hashes, values, strict=True) if text is not None}
        for name in hashes:
            if name not in found:
                raise MissingPart(
                    f"prompt part {name} is not stored",
                    field="parts",
                    hint="its question has ended, or Redis lost data; submit the question again",
                )
        self._remember(found)
        return found

    def _remember(self, texts: Mapping[str, str]) -> None:
        with self._lock:
            self._cache.update(texts)
            while len(self._cache) > self._cached:
                self._cache.popitem(last=False)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
