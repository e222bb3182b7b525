"""What a server's prefix cache probably holds, told from the requests that were sent there."""

from __future__ import annotations

from hexgen_celery.core.engine.kv import KvPool
from hexgen_celery.core.prefix import Prefix
from hexgen_celery.core.profiles import Profile

# A prompt's length behind any prefix, where only the prefix matters.
LONGER_THAN_ANY = 2**62


class PrefixLedger:
    """A shadow of one server's cache: the same blocks and the same LRU, moved by dispatches.

    It runs ahead of the server by what still waits there, which is what a new request will meet.
    """

    def __init__(self, profile: Profile, *, enabled: bool = True) -> None:
        blocks = profile.kv_tokens // profile.block_tokens
        self._pool = KvPool(blocks, profile.block_tokens, sharing=enabled)

    def cached_tokens(self, prefix: Prefix) -> int:
        """Leading tokens of `prefix` expected in the server's cache."""
        return self._pool.cached_tokens(prefix, LONGER_THAN_ANY)

    def note(self, prefix: Prefix, input_tokens: int, output_tokens: int) -> None:
        """A request was sent there: its beginning is now the most recently used."""
        total = input_tokens + output_tokens
        lease = self._pool.acquire(prefix, input_tokens, total, 0)
        if lease is not None:
            self._pool.record(lease, input_tokens)
            self._pool.release(lease, total)

    def clear(self) -> None:
        """Forget everything: the server was restarted."""
        pool = self._pool
        self._pool = KvPool(pool.total_blocks, pool.block_tokens, sharing=pool.sharing)
