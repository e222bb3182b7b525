"""Kombu's quality of service over leases, so that no message depends on its connection."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis as kombu_redis
from kombu.transport import virtual


class LeasedQoS(kombu_redis.QoS):  # type: ignore[misc]
    """Acknowledges, rejects and restores through the process's lease keeper."""

    def append(self, message: Any, delivery_tag: str) -> None:
        """The claim has recorded the lease; only the message object is still to be known."""
        self.channel.keeper.attach(delivery_tag, message)
        virtual.QoS.append(self, message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        """The message is done with; delivered later when Redis is away."""
        self.channel.keeper.ack(delivery_tag)
        virtual.QoS.ack(self, delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Back to the end of the queue, or to the dead letters."""
        if requeue:
            self.channel.keeper.requeue((delivery_tag,), at_front=False)
        else:
            self.channel.keeper.reject(delivery_tag)
        virtual.QoS.ack(self, delivery_tag)

    def restore_by_tag(self, tag: str, client: Any = None, leftmost: bool = False) -> None:  # noqa: ARG002
        """Hand one message back."""
        self.channel.keeper.requeue((tag,), at_front=not leftmost)

    def restore_unacked(self, client: Any = None) -> list[Any]:  # noqa: ARG002
        """Hand back everything delivered here and not acknowledged."""
        self._flush()
        self.channel.keeper.requeue(list(self._delivered))
        self._delivered.clear()
        return []

    def restore_visible(self, start: int = 0, num: int = 10, interval: int = 10) -> None:
        """Nothing: the lease keeper sweeps, on a timer of its own."""

    def abandon(self) -> None:
        """The connection is lost, the work goes on: let go of the messages, not of their leases."""
        self._on_collect.cancel()
        self._flush()
        self._delivered.clear()
        self._delivered.restored = True
