"""What was learnt, as a router reads it: never waiting for it, and asking only while it decides."""

from __future__ import annotations

import redis

from hexgen_celery.background import BackgroundRefresh
from hexgen_celery.closing import Closing
from hexgen_celery.keys import Keys
from hexgen_celery.learning.knowledge import Knowledge
from hexgen_celery.learning.store import KnowledgeStore

FRESH_SECONDS = 2.0


class SharedKnowledge(Closing):
    """The latest knowledge, at most `FRESH_SECONDS` (and one loading) old when it is used.

    Loading happens in a thread, so that a decision goes on with what is there; without decisions
    nothing is asked of Redis. While Redis is away, or the state is of another version, decisions go
    on with what is known. To be closed before its client.
    """

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._store = KnowledgeStore(client, keys)
        self._known = Knowledge()
        self._version = 0
        self._refreshing = BackgroundRefresh("knowledge", self.refresh, FRESH_SECONDS)

    @property
    def version(self) -> int:
        """Which version `current` is."""
        return self._version

    def current(self) -> Knowledge:
        """What is known now."""
        self._refreshing.wanted()
        return self._known

    def refresh(self) -> Knowledge:
        """Load now if there is something newer.

        Raises:
            redis.RedisError: Redis is away.
        """
        version = self._store.version()
        if version != self._version:
            self._known, _ = self._store.load()
            self._version = version
        return self._known

    def close(self) -> None:
        """Load nothing any more."""
        self._refreshing.close()
