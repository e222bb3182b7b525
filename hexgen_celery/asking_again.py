"""Questions that Redis lost although it had confirmed them, asked again by whoever waits for them.

A Redis that crashes while its disk is busy, or whose replica takes over, comes back without its
last writes. A question among them would never end. It is sent again under its own id, which changes
nothing where it was only slow to be accepted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping

import structlog

from hexgen_celery.errors import BrokerUnavailable
from hexgen_celery.workflows.definition import Json

log = structlog.get_logger(__name__)

LOOK_SECONDS = 10.0
MOST_SENDINGS = 3


class AskingAgain:
    """Looks after the questions `sent` (what was sent, by id) for as long as somebody waits.

    `known` says which of some ids Redis knows; `send` sends one again. What is unknown at two looks
    in a row is lost: between its queue and its beginning a question is nowhere, but not so long.
    """

    def __init__(
        self,
        sent: Mapping[str, Json],
        known: Callable[[Collection[str]], set[str]],
        send: Callable[[str, Json], object],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sent = sent
        self._known = known
        self._send = send
        self._monotonic = monotonic
        self._look_at = monotonic() + LOOK_SECONDS
        self._missing: set[str] = set()
        self._sendings: Counter[str] = Counter()

    def look(self, waiting: Collection[str]) -> None:
        """Look after those of `waiting`, if it is time to.

        Raises:
            redis.RedisError: Redis is away; the next look is as good.
        """
        if self._monotonic() < self._look_at:
            return
        self._look_at = self._monotonic() + LOOK_SECONDS
        ours = [name for name in waiting if self._may_be_sent(name)]
        missing = set(ours) - self._known(ours) if ours else set()
        lost, self._missing = missing & self._missing, missing - self._missing
        for name in sorted(lost):
            self._ask_again(name)

    def _ask_again(self, name: str) -> None:
        log.warning("Redis lost a question: it is asked again", workflow=name)
        try:
            self._send(name, self._sent[name])
            self._sendings[name] += 1
        except BrokerUnavailable as error:
            log.warning("not asked again yet", workflow=name, error=str(error))

    def _may_be_sent(self, name: str) -> bool:
        return name in self._sent and self._sendings[name] < MOST_SENDINGS
