"""How a channel gets messages: one connection per lane, which claims, and waits when there is
nothing.

The waiting never takes a message: it only tells that a claim is worth trying. The sorted sets of a
channel share a lane, which sleeps at a wake list that `queue_put` pushes to. Each of Kombu's lists
has its own, which sleeps in a BLMOVE from the list onto the same end of itself.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import structlog
from kombu.utils.uuid import uuid
from redis.exceptions import NoScriptError, ResponseError

from hexgen_celery.transport import process
from hexgen_celery.transport.messages import Claimed
from hexgen_celery.transport.scripts import (
    Nothing,
    claim_arguments,
    claimed,
    queue_script,
    take_arguments,
)

if TYPE_CHECKING:
    from hexgen_celery.transport.channel import Channel

log = structlog.get_logger(__name__)

WAIT_SECONDS = 1


class Doing(Enum):
    """What a lane's connection is busy with."""

    IDLE = auto()
    CLAIMING = auto()
    WAITING = auto()


class Lane:
    """One connection's part of a channel. Runs in the consuming thread."""

    def __init__(self, channel: Channel, name: str) -> None:
        self.channel = channel
        self.name = name
        self.type = f"lane {name}"
        self.client = channel._create_client(asynchronous=True)
        self.doing = Doing.IDLE
        self.sent_at = 0.0
        self._empty = False
        self._rests_until = 0.0
        self._refusal = ""
        self._unknown: set[str] = set()

    @property
    def is_waiting_next(self) -> bool:
        """Whether the last claim found nothing, so that the next step is to wait."""
        return self._empty

    @property
    def may_start(self) -> bool:
        """Whether it does nothing now and need not rest."""
        return self.doing is Doing.IDLE and time.monotonic() >= self._rests_until

    def start(self) -> None:
        """Send the next claim, or the next wait."""
        self.sent_at = time.monotonic()
        if self._empty:
            self._send_wait()
            self.doing = Doing.WAITING
        else:
            self._send_claim()
            self.doing = Doing.CLAIMING

    def read(self) -> Claimed | None:
        """The reply that has arrived: a message, or None."""
        doing, self.doing = self.doing, Doing.IDLE
        try:
            if doing is Doing.WAITING:
                self._woken(self._parse("BRPOP"))
                return None
            outcome = claimed(self._parse("EVALSHA"))
        except NoScriptError:
            self._unknown.add(self.script)
            return None
        except ResponseError as error:
            self._refused(error)
            return None
        self._refusal = ""
        return self._outcome(outcome)

    def settle(self) -> Claimed | None:
        """End what is under way, for this lane is not wanted any more; what a claim still got."""
        outcome = self.read() if self.doing is Doing.CLAIMING else None
        self.close()
        return outcome

    def close(self) -> None:
        """Close the connection; a wait ends with it."""
        self.doing = Doing.IDLE
        connection, self.client.connection = self.client.connection, None
        if connection is not None:
            connection.disconnect()

    def reset(self) -> None:
        """The connection was lost: whatever was under way is void."""
        self.doing = Doing.IDLE
        self._empty = False

    def _refused(self, error: ResponseError) -> None:
        """Redis is up but takes no writes (memory or disk full, a replica): that may pass."""
        self._rests_until = time.monotonic() + WAIT_SECONDS
        self._empty = False
        if self._refusal != str(error):
            log.warning("Redis refuses to hand out messages", lane=self.type, error=str(error))
        self._refusal = str(error)

    def _outcome(self, outcome: Claimed | Nothing) -> Claimed | None:
        if isinstance(outcome, Nothing):
            self._empty = True
            return None
        return outcome

    def _woken(self, _reply: Any) -> None:
        self._empty = False

    def _parse(self, command: str) -> Any:
        try:
            return self.client.parse_response(self.client.connection, command)
        except self.channel.connection_errors:
            self.client.connection.disconnect()
            raise

    def _run_script(self, arguments: Sequence[Any]) -> None:
        script = queue_script(self.script)
        known = script.name not in self._unknown
        self._unknown.discard(script.name)
        command = ("EVALSHA", script.sha) if known else ("EVAL", script.text)
        self.client.connection.send_command(*command, 1, self.channel.root, *arguments)

    script: str

    def _send_claim(self) -> None:
        raise NotImplementedError

    def _send_wait(self) -> None:
        raise NotImplementedError


class SortedLane(Lane):
    """The sorted sets of a channel, claimed from together."""

    script = "claim"

    def __init__(self, channel: Channel, queues: Sequence[str]) -> None:
        super().__init__(channel, "sorted")
        self.queues = tuple(queues)
        self.wake_list = f"{channel.root}:wake:{uuid()}"
        self._hops = -1

    def _send_claim(self) -> None:
        channel = self.channel
        channel.keeper.starve(self.wake_list, starving=False)
        self._run_script(
            claim_arguments(
                channel.keeper.holder,
                channel.lease_seconds,
                self.queues,
                process.allowance(channel.keeper),
                channel.claim_rules,
                wake_list=self.wake_list,
                hops=self._hops,
            )
        )
        self._hops = -1

    def _send_wait(self) -> None:
        self.client.connection.send_command("BRPOP", self.wake_list, WAIT_SECONDS)

    def _outcome(self, outcome: Claimed | Nothing) -> Claimed | None:
        if isinstance(outcome, Nothing) and outcome.waits:
            self.channel.keeper.starve(self.wake_list, starving=True)
        return super()._outcome(outcome)

    def _woken(self, reply: Any) -> None:
        super()._woken(reply)
        self._hops = int(reply[1]) if reply else 0

    def close(self) -> None:
        self.channel.keeper.starve(self.wake_list, starving=False)
        super().close()


class ListLane(Lane):
    """One of Kombu's queues: a list per priority, most urgent first."""

    script = "take"

    def __init__(self, channel: Channel, queue: str) -> None:
        super().__init__(channel, queue)
        self.lists = channel.lists_of(queue)

    def _send_claim(self) -> None:
        channel = self.channel
        self._run_script(
            take_arguments(channel.keeper.holder, channel.lease_seconds, uuid(), self.lists)
        )

    def _send_wait(self) -> None:
        first = self.lists[0]
        self.client.connection.send_command("BLMOVE", first, first, "RIGHT", "RIGHT", WAIT_SECONDS)

    def _parse(self, command: str) -> Any:
        return super()._parse("BLMOVE" if command == "BRPOP" else command)
