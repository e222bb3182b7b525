"""Counting prompt parts with the tokenizer of the server that gets them, behind the requests."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

import structlog

from hexgen_celery.errors import HexgenError
from hexgen_celery.part_tokens import PartTokenStore

log = structlog.get_logger(__name__)

# Parts to be counted that are held at most: those of a burst beyond it are met again.
MOST_WAITING = 200
REMEMBERED = 20_000
# So long a server that has no tokenizer to ask is not asked again.
REST_SECONDS = 300.0

Tokenize = Callable[[str], int | None]


class PartCounter:
    """Counts each part once for `model`, when it is met for the second time: what one request alone
    has is not worth asking. `offer` is for the threads that run requests and costs next to nothing;
    `count` is called again and again by one thread."""

    def __init__(
        self,
        store: PartTokenStore,
        model: str,
        tokenize: Tokenize,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._model = model
        self._tokenize = tokenize
        self._now = now
        self._waiting: OrderedDict[str, str] = OrderedDict()
        self._met: OrderedDict[str, None] = OrderedDict()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._rests_until = float("-inf")

    def offer(self, texts: Mapping[str, str]) -> None:
        """These parts (text by hash) are being sent to the server."""
        for digest, text in texts.items():
            if digest in self._known:
                continue
            if digest not in self._met:
                _remember(self._met, digest)
            elif len(self._waiting) < MOST_WAITING:
                self._waiting[digest] = text

    def count(self) -> int:
        """Count what was offered and nobody has counted yet; how many parts that were.

        Raises:
            redis.RedisError: Redis is away; what was not kept is offered again.
        """
        if not self._waiting or self._now() < self._rests_until:
            return 0
        texts = dict(self._waiting.copy())
        known = self._store.read([(self._model, digest) for digest in texts])
        counted = 0
        for digest, text in texts.items():
            if (self._model, digest) not in known:
                if not self._counted(digest, text):
                    break
                counted += 1
            self._waiting.pop(digest, None)
            _remember(self._known, digest)
        return counted

    def _counted(self, digest: str, text: str) -> bool:
        tokens = self._asked(text)
        if tokens is None:
            self._rests_until = self._now() + REST_SECONDS
            self._waiting.clear()
            log.debug("prompt parts go by their length: no tokenizer to ask", model=self._model)
            return False
        self._store.write((self._model, digest), tokens)
        return True

    def _asked(self, text: str) -> int | None:
        try:
            return self._tokenize(text)
        except HexgenError as error:
            log.debug("a part was not counted", error=str(error))
            return None


def _remember(names: OrderedDict[str, None], name: str) -> None:
    names[name] = None
    if len(names) > REMEMBERED:
        names.popitem(last=False)
