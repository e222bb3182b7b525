"""How many tokens prompt parts have by their models' own tokenizers, shared through Redis.

LLM workers count parts that are new to their model, behind the requests that brought them; routers
look the counts up in memory and fetch unknown ones behind their decisions. Until a part is counted,
and where a server has no tokenizer to ask, the ratio learnt from `usage` stands in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import cast

import redis

from hexgen_celery.background import BackgroundRefresh
from hexgen_celery.closing import Closing
from hexgen_celery.keys import Keys
from hexgen_celery.parts import SYNTHETIC
from hexgen_celery.workflows.definition import LlmCall

# A part that nobody asked a server about for so long is forgotten.
KEPT_SECONDS = 7 * 86_400
FRESH_SECONDS = 2.0
REMEMBERED = 20_000
AT_ONCE = 500

Name = tuple[str, str]
"""Model and hash."""


class PartTokenStore:
    """Reads and writes the counts."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def read(self, names: Sequence[Name]) -> dict[Name, int]:
        """The counts that are known, in one round trip.

        Raises:
            redis.RedisError: Redis is away.
        """
        if not names:
            return {}
        keys = [self._keys.part_tokens(model, digest) for model, digest in names]
        found = cast("list[str | None]", self._client.mget(keys))
        return {name: int(count) for name, count in zip(names, found, strict=True) if count}

    def write(self, name: Name, tokens: int) -> None:
        """Keep the count of one part.

        Raises:
            redis.RedisError: Redis is away.
        """
        self._client.set(self._keys.part_tokens(*name), tokens, ex=KEPT_SECONDS)


class PartTokens(Closing):
    """The counts as a router reads them: from memory, never waiting. Not thread-safe.

    While Redis is away the ratio stands in. To be closed before its client.
    """

    def __init__(self, client: redis.Redis, keys: Keys, seconds: float = FRESH_SECONDS) -> None:
        self._store = PartTokenStore(client, keys)
        self._known: dict[Name, int] = {}
        self._unknown: OrderedDict[Name, None] = OrderedDict()
        self._refreshing = BackgroundRefresh("part-tokens", self._refresh, seconds)

    def of(self, call: LlmCall, model: str) -> list[int | None]:
        """The tokens of the parts of `call`, in order; None for those not known here (yet)."""
        counts = [self._known.get((model, part.hash)) for part in call.parts]
        if None in counts:
            self._ask(
                (model, part.hash)
                for part, count in zip(call.parts, counts, strict=True)
                if count is None and not part.hash.startswith(SYNTHETIC)
            )
        return counts

    def close(self) -> None:
        """Fetch nothing any more."""
        self._refreshing.close()

    def _ask(self, names: Iterable[Name]) -> None:
        for name in names:
            self._unknown[name] = None
        if self._unknown:
            self._refreshing.wanted()

    def _refresh(self) -> None:
        wanted = list(self._unknown.copy())[-AT_ONCE:]
        self._unknown.clear()
        found = self._store.read(wanted)
        if len(self._known) + len(found) > REMEMBERED:
            self._known = {}
        self._known.update(found)
