"""Kombu's Redis channel with sorted sets for `sql` and `gpu.*`, and leases on every queue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cached_property
from queue import Empty
from typing import Any

import redis
import structlog
from kombu.transport import redis as kombu_redis
from kombu.utils.json import dumps
from kombu.utils.scheduling import cycle_by_name
from kombu.utils.uuid import uuid

from hexgen_celery.core.order.claim import ClaimRules
from hexgen_celery.keys import Keys
from hexgen_celery.names import SQL_QUEUE
from hexgen_celery.transport import process
from hexgen_celery.transport.lanes import Lane, ListLane, SortedLane
from hexgen_celery.transport.leases import LeaseKeeper, LeaseRules
from hexgen_celery.transport.messages import Claimed, Outgoing, kombu_message, outgoing
from hexgen_celery.transport.qos import LeasedQoS
from hexgen_celery.transport.scripts import Nothing, QueueScripts, queue_script

log = structlog.get_logger(__name__)

SORTED_PREFIX = "gpu."
SORTED_LANE = "all sorted sets"
OWN_OPTIONS = (
    "queue_root",
    "lease_seconds",
    "max_deliveries",
    "dead_letters",
    "claim_every",
    "claim_patience",
    "claim_depth",
)


def is_sorted(queue: str) -> bool:
    """Whether a queue is a sorted set; every other is one of Kombu's lists."""
    return queue == SQL_QUEUE or queue.startswith(SORTED_PREFIX)


class Channel(kombu_redis.Channel):  # type: ignore[misc]
    """A channel to one Redis.

    Transport options: `queue_root` (where our keys begin), `lease_seconds`, `max_deliveries`,
    `dead_letters`, and the claim rule's `claim_every`, `claim_patience` and `claim_depth`.
    """

    QoS = LeasedQoS
    from_transport_options = (*kombu_redis.Channel.from_transport_options, *OWN_OPTIONS)
    queue_root = Keys().queue_root
    lease_seconds = LeaseRules().seconds
    max_deliveries = LeaseRules().deliveries
    dead_letters = LeaseRules().dead_letters
    claim_every = ClaimRules().every
    claim_patience = ClaimRules().patience
    claim_depth = ClaimRules().depth
    _redis: redis.Redis | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._lanes: dict[str, Lane] = {}
        self._unleased: set[str] = set()
        self._unacknowledged: set[str] = set()
        super().__init__(*args, **kwargs)
        self._lane_cycle = cycle_by_name(self.queue_order_strategy)()

    # --- What the scripts need

    @property
    def server(self) -> str:
        """What tells this channel's Redis from any other."""
        return str(self.connection.client.as_uri(include_password=True))

    @property
    def root(self) -> str:
        """Where all keys of our scripts begin; a prefixing client must not see them."""
        return f"{self.global_keyprefix}{self.queue_root}"

    @cached_property
    def claim_rules(self) -> ClaimRules:
        """How claims choose."""
        return ClaimRules(self.claim_every, self.claim_patience, self.claim_depth)

    @cached_property
    def keeper(self) -> LeaseKeeper:
        """The process's lease keeper for this broker."""
        return process.keeper_of(
            self.server,
            self.root,
            LeaseRules(self.lease_seconds, self.max_deliveries, self.dead_letters),
            lambda: redis.Redis(connection_pool=self._get_pool()),
        )

    @property
    def redis(self) -> redis.Redis:
        """A client over this channel's connections that adds no prefix."""
        if self._redis is None or self._redis.connection_pool is not self.pool:
            self._redis = redis.Redis(connection_pool=self.pool)
        return self._redis

    @property
    def scripts(self) -> QueueScripts:
        """The queue scripts over this channel's connections."""
        return QueueScripts(self.redis, self.root)

    def lists_of(self, queue: str) -> list[str]:
        """The full names of a list queue's lists, most urgent priority first."""
        return [f"{self.global_keyprefix}{self._q_for_pri(queue, p)}" for p in self.priority_steps]

    # --- Putting

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        if not is_sorted(queue):
            super()._put(queue, message, **kwargs)
            return
        batch = kwargs.get("_publish_batch")
        if batch is not None:
            batch.add("eval", *self._put_command(queue, message))
            return
        self.scripts.put(_outgoing(queue, message))

    def _put_command(self, queue: str, message: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of an EVAL that queues `message`, for pipelines."""
        sent = _outgoing(queue, message)
        return (queue_script("put").text, 1, self.root, sent.token, sent.value)

    # --- Getting

    def basic_get(self, queue: str, no_ack: bool = False, **_kwargs: Any) -> Any:
        """One message at once, or None."""
        try:
            payload = self._claim(queue)
        except Empty:
            return None
        message = self.Message(payload, channel=self)
        if no_ack:
            self.keeper.ack(message.delivery_tag)
        else:
            self.qos.append(message, message.delivery_tag)
        return message

    def _get(self, queue: str, timeout: float | None = None) -> Any:  # noqa: ARG002
        """One message for good, as the base class understands it: it has no lease."""
        payload = self._claim(queue)
        self.keeper.ack(payload["properties"]["delivery_tag"])
        return payload

    def _claim(self, queue: str) -> dict[str, Any]:
        self.keeper.start()
        while not isinstance(outcome := self._claim_any(queue), Nothing):
            self.keeper.hold(outcome)
            message = self._readable(outcome)
            if message is not None:
                return message
        raise Empty

    def _claim_any(self, queue: str) -> Claimed | Nothing:
        holder, lease = self.keeper.holder, self.lease_seconds
        if is_sorted(queue):
            return self.scripts.claim(holder, lease, (queue,), rules=self.claim_rules)
        return self.scripts.take(holder, lease, uuid(), self.lists_of(queue))

    # --- Consuming

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        """Consume; with `no_ack` from a list as Kombu does, since there is nothing to lose."""
        if no_ack:
            (self._unacknowledged if is_sorted(queue) else self._unleased).add(queue)
        answer = super().basic_consume(queue, no_ack, *args, **kwargs)
        self._open_lanes()
        return answer

    def _basic_cancel(self, consumer_tag: str) -> Any:
        answer = super()._basic_cancel(consumer_tag)
        self._open_lanes()
        return answer

    @property
    def active_queues(self) -> list[str]:
        """The queues that Kombu's own BRPOP serves: lists whose consumers want no lease."""
        return [queue for queue in super().active_queues if queue in self._unleased]

    @property
    def lanes(self) -> list[Lane]:
        """All lanes."""
        return list(self._lanes.values())

    def lanes_in_turn(self) -> list[Lane]:
        """All lanes, the one whose turn it is first."""
        names = self._lane_cycle.consume(len(self._lanes))
        return [self._lanes[name] for name in names if name in self._lanes]

    def lane_named(self, kind: str) -> Lane | None:
        """The lane that the poller knows as `kind`."""
        return next((lane for lane in self._lanes.values() if lane.type == kind), None)

    def may_claim(self) -> bool:
        """Whether this consumer wants a message, and its process may take one."""
        return (
            bool(self._lanes)
            and not self._closing
            and bool(self.qos.can_consume())
            and process.allowance(self.keeper).sequences > 0
        )

    def receive(self, lane: Lane) -> bool:
        """Read a lane's reply and deliver what it brought; False when that was nothing."""
        claimed = lane.read()
        if claimed is None:
            return False
        self._lane_cycle.rotate(lane.name)
        self.keeper.hold(claimed)
        queue = claimed.message.queue if claimed.message.is_sorted else lane.name
        message = self._readable(claimed)
        if message is None:
            return False
        if queue in self._unacknowledged:
            self.keeper.ack(claimed.message.token)
        self.connection._deliver(message, queue)
        return True

    def _readable(self, claimed: Claimed) -> dict[str, Any] | None:
        """The message in Kombu's form; a dead letter and None when it has none."""
        try:
            return kombu_message(claimed)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.keeper.reject(claimed.message.token, f"not a message of Kombu's: {error!r}")
            return None

    def _open_lanes(self) -> None:
        """Have one lane for the sorted sets, one for each leased list, and none besides."""
        leased = [q for q in super().active_queues if q not in self._unleased]
        ordered = tuple(queue for queue in leased if is_sorted(queue))
        wanted = {queue: (queue,) for queue in leased if not is_sorted(queue)}
        if ordered:
            wanted[SORTED_LANE] = ordered
        for name, lane in list(self._lanes.items()):
            if name not in wanted or (isinstance(lane, SortedLane) and lane.queues != ordered):
                self._close_lane(self._lanes.pop(name))
        for name, queues in wanted.items():
            if name not in self._lanes:
                is_set = name == SORTED_LANE
                self._lanes[name] = SortedLane(self, queues) if is_set else ListLane(self, name)
        self._lane_cycle.update(self._lanes)
        if self._lanes:
            self.keeper.start()

    def _close_lane(self, lane: Lane) -> None:
        """Close a lane; a message that was on its way goes back at once."""
        try:
            claimed = lane.settle()
        except self.connection_errors:
            claimed = None
        self.connection.cycle.forget(self, lane)
        if claimed is not None:
            self.keeper.hold(claimed)
            self.keeper.requeue((claimed.message.token,))

    # --- Whole queues

    def _size(self, queue: str) -> int:
        if not is_sorted(queue):
            return int(super()._size(queue))
        with self.redis.pipeline(transaction=False) as pipe:
            for key in self._places(queue):
                pipe.zcard(key)
            return sum(pipe.execute())

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        if not is_sorted(queue):
            return bool(super()._has_queue(queue, **kwargs))
        return bool(self.redis.exists(*self._places(queue)))

    def _purge(self, queue: str) -> int:
        if not is_sorted(queue):
            return int(super()._purge(queue))
        return self.scripts.purge(queue)

    def _delete(self, queue: str, *args: Any, **kwargs: Any) -> None:
        super()._delete(queue, *args, **kwargs)
        if is_sorted(queue):
            self.scripts.purge(queue)

    def _places(self, queue: str) -> Iterator[str]:
        return (f"{self.root}:{queue}:{part}" for part in ("waiting", "demoted"))

    # --- Restoring

    def _restore(self, message: Any, leftmost: bool = False) -> None:
        self.keeper.requeue((message.delivery_tag,), at_front=not leftmost)

    def _do_restore_message(
        self,
        payload: dict[str, Any],
        exchange: str,
        routing_key: str,
        pipe: Any,
        leftmost: bool = False,
    ) -> None:
        """Queue what stock Kombu left in its own table of unacknowledged messages."""
        queues = self._lookup(exchange, routing_key)
        if not any(map(is_sorted, queues)):
            super()._do_restore_message(payload, exchange, routing_key, pipe, leftmost)
            return
        for queue in queues:
            if is_sorted(queue):
                pipe.eval(*self._put_command(queue, payload))
            else:
                (pipe.lpush if leftmost else pipe.rpush)(queue, dumps(payload))

    # --- Ending

    def abandon(self) -> None:
        """The connection is lost: close everything but the leases."""
        if self._qos is not None:
            self._qos.abandon()
        for lane in self.lanes:
            lane.close()
        self._lanes.clear()

    def close(self) -> None:
        """Close; what is delivered here and not acknowledged goes back at once."""
        self._closing = True
        while self._lanes:
            _, lane = self._lanes.popitem()
            self._close_lane(lane)
        super().close()


def _outgoing(queue: str, message: dict[str, Any]) -> Outgoing:
    """The message to store; one whose urgency cannot be read is queued all the same, and named."""
    sent = outgoing(queue, message, time.time())
    if sent.unread is not None:
        log.warning(
            "urgency unread: queued by arrival", queue=queue, token=sent.token, cause=sent.unread
        )
    return sent
