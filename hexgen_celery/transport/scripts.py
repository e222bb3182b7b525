"""The queue scripts behind typed calls; `lua/queue_*.lua` say what each takes and answers.

Every call is one round trip. Keys are built here and in the scripts, never by a prefixing client.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import redis
from redis.exceptions import NoScriptError

from hexgen_celery.core.admission import Allowance
from hexgen_celery.core.order.claim import ClaimRules
from hexgen_celery.scripts import milliseconds, script_source
from hexgen_celery.transport.messages import Claimed, Outgoing, Queued, Urgency, decode

_LIBRARY = "lib/queue"
_BATCH = 500

UNLIMITED = Allowance(math.inf, math.inf, 1)


@dataclass(frozen=True, slots=True)
class Script:
    """One script's text and its SHA-1, by which Redis knows it once loaded."""

    name: str
    text: str
    sha: str


@cache
def queue_script(name: str) -> Script:
    """The script `lua/queue_<name>.lua` with its library."""
    text = script_source(f"queue_{name}", _LIBRARY)
    return Script(name, text, hashlib.sha1(text.encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep did: messages put back, given up, leases extended after a gap, and the oldest
    dead letters dropped for want of room."""

    put_back: int = 0
    buried: int = 0
    extended: int = 0
    dropped: int = 0

    def __add__(self, other: Swept) -> Swept:
        return Swept(
            self.put_back + other.put_back,
            self.buried + other.buried,
            self.extended + other.extended,
            self.dropped + other.dropped,
        )


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What acknowledging did: messages ended, and those put back because their proof is gone."""

    ended: int = 0
    unproven: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepRules:
    """When a lease has ended. Seconds; `deliveries` is after how many a message is given up.

    A sweep is due `interval` after the last; after a `gap` without one all leases are extended
    once, because nobody could renew either. The newest `dead_letters` are kept.
    """

    lease: float
    interval: float
    gap: float
    deliveries: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class Nothing:
    """A claim that took nothing; `waits` when something waits that does not fit."""

    waits: bool


NOTHING = Nothing(waits=False)
NOTHING_FITS = Nothing(waits=True)


def claim_arguments(
    holder: str,
    lease_seconds: float,
    queues: Sequence[str],
    allowance: Allowance,
    rules: ClaimRules,
    *,
    wake_list: str = "",
    hops: int = -1,
) -> list[Any]:
    """The arguments of `queue_claim`; `hops` is negative for a worker that was not asleep."""
    return [
        holder,
        milliseconds(lease_seconds),
        wake_list,
        hops,
        allowance.kv_tokens,
        allowance.prefill_tokens,
        allowance.sequences,
        rules.every,
        rules.patience,
        rules.depth,
        *queues,
    ]


def take_arguments(
    holder: str, lease_seconds: float, spare_token: str, lists: Sequence[str]
) -> list[Any]:
    """The arguments of `queue_take`."""
    return [holder, milliseconds(lease_seconds), spare_token, *lists]


def claimed(answer: Any) -> Claimed | Nothing:
    """The answer of `queue_claim` or `queue_take`."""
    if not isinstance(answer, list):
        return NOTHING_FITS if answer else NOTHING
    token, value = answer
    return Claimed(decode(token, value))


class QueueScripts:
    """The scripts bound to one client (answers in bytes) and one deployment's queue root."""

    def __init__(self, client: redis.Redis, root: str) -> None:
        self._client = client
        self._root = root

    def put(self, message: Outgoing) -> bool:
        """Queue a message; False when it waits or is held already."""
        return bool(self.run("put", message.token, message.value))

    def claim(
        self,
        holder: str,
        lease_seconds: float,
        queues: Sequence[str],
        allowance: Allowance = UNLIMITED,
        rules: ClaimRules | None = None,
    ) -> Claimed | Nothing:
        """Take the most urgent message that fits; a lease of 0 takes it for good."""
        rules = rules or ClaimRules()
        return claimed(
            self.run("claim", *claim_arguments(holder, lease_seconds, queues, allowance, rules))
        )

    def take(
        self, holder: str, lease_seconds: float, spare_token: str, lists: Sequence[str]
    ) -> Claimed | Nothing:
        """Take the next message of some of Kombu's lists, the first that has one."""
        arguments = take_arguments(holder, lease_seconds, spare_token, lists)
        return claimed(self.run("take", *arguments))

    def first_token(self, holder: str, token: str, wake_list: str = "") -> bool:
        """Count the message's prefill out; False when it is not held here."""
        return bool(self.run("first_token", holder, token, wake_list))

    def ack(self, done: Mapping[str, str], wake_list: str = "") -> Acknowledged:
        """End messages that are done. `done`: token to the key that proves it, "" for none."""
        if not done:
            return Acknowledged()
        pairs = [text for pair in done.items() for text in pair]
        ended, *unproven = self.run("ack", wake_list, *pairs)
        return Acknowledged(int(ended), tuple(token.decode() for token in unproven))

    def requeue(self, holder: str, tokens: Sequence[str], *, at_front: bool = True) -> int:
        """Hand held messages back unfinished; lists take them at the front or at the end."""
        return int(self.run("requeue", holder, int(at_front), *tokens)) if tokens else 0

    def reject(self, holder: str, tokens: Sequence[str], cause: str) -> int:
        """Turn held messages into dead letters."""
        return int(self.run("reject", holder, cause, *tokens)) if tokens else 0

    def renew(self, holder: str, lease_seconds: float, tokens: Sequence[str]) -> list[str]:
        """Extend leases; the tokens of those that are no longer held by `holder`."""
        if not tokens:
            return []
        lost = self.run("renew", holder, milliseconds(lease_seconds), *tokens)
        return [tokens[index] for index in lost]

    def sweep(self, rules: SweepRules) -> Swept:
        """Put back what nobody renewed."""
        times = (rules.lease, rules.interval, rules.gap)
        limits = (rules.deliveries, _BATCH, rules.dead_letters)
        answer = self.run("sweep", *map(milliseconds, times), *limits)
        return Swept(*answer)

    def disown(self, holders: str) -> list[Queued]:
        """End the leases of dead holders, whose names begin like that; what they held."""
        return [decode("", value) for value in self.run("disown", holders)]

    def rescore(self, token: str, key: float, feasible_until: float = math.inf) -> bool:
        """Give a message another rank; False when it is unknown."""
        return bool(self.run("rescore", token, repr(key), repr(feasible_until)))

    def redirect(self, token: str, queue: str, urgency: Urgency) -> bool:
        """Let a waiting message wait in `queue` with another urgency; False when none waits."""
        return bool(
            self.run(
                "redirect",
                token,
                queue,
                repr(urgency.key),
                repr(urgency.feasible_until),
                urgency.kv_tokens,
                urgency.prefill_tokens,
                urgency.prefill_us,
                urgency.decode_us,
            )
        )

    def remove(self, tokens: Sequence[str]) -> int:
        """Remove messages that nobody holds."""
        return int(self.run("remove", *tokens)) if tokens else 0

    def purge(self, queue: str) -> int:
        """Remove all that waits in a sorted set."""
        return self._in_batches("purge", queue, _BATCH)

    def peek(self, queue: str, count: int, skip: int = 0) -> list[tuple[Queued, bool]]:
        """The most urgent messages that wait, without the first `skip`, each with whether it is
        demoted."""
        answer = self.run("peek", queue, count, skip)
        triples = zip(answer[::3], answer[1::3], answer[2::3], strict=True)
        return [(decode(token, value), bool(demoted)) for token, value, demoted in triples]

    def redrive(self, tokens: Sequence[str]) -> int:
        """Put dead letters back into their queues; how many there were."""
        return sum(int(self.run("redrive", 1, *some)) for some in _batches(tokens))

    def drop(self, tokens: Sequence[str]) -> int:
        """Remove dead letters for good; how many there were."""
        return sum(int(self.run("redrive", 0, *some)) for some in _batches(tokens))

    def run(self, name: str, *arguments: Any) -> Any:
        """Run a script, loading it where Redis does not know it (any more)."""
        script = queue_script(name)
        try:
            return self._execute("EVALSHA", script.sha, *arguments)
        except NoScriptError:
            return self._execute("EVAL", script.text, *arguments)

    def _execute(self, command: str, script: str, *arguments: Any) -> Any:
        execute: Callable[..., Any] = self._client.execute_command
        return execute(command, script, 1, self._root, *arguments)

    def _in_batches(self, name: str, *arguments: Any) -> int:
        total = 0
        while (done := cast("int", self.run(name, *arguments))) > 0:
            total += done
        return total


def _batches(tokens: Sequence[str]) -> Iterator[Sequence[str]]:
    """No script may hold Redis up for longer than so many messages take."""
    return (tokens[start : start + _BATCH] for start in range(0, len(tokens), _BATCH))
