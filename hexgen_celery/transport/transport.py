"""The transports that Celery's `broker_transport` names."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis as kombu_redis

from hexgen_celery.transport.channel import Channel
from hexgen_celery.transport.polling import LanePoller
from hexgen_celery.transport.sentinel_channel import SentinelChannel


class Transport(kombu_redis.Transport):  # type: ignore[misc]
    """Urgency-ordered, leased queues on one Redis.

    `driver_type` stays "redis": Celery's `worker_disable_prefetch` asks for it.
    """

    Channel = Channel

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cycle = LanePoller()

    def _collect(self, _connection: Any) -> None:
        """The connection broke (`kombu.Connection.collect`): let go of it, and keep the leases."""
        for channel in self.channels:
            channel.abandon()
        self.close_connection(self)


class SentinelTransport(Transport):
    """The same behind Redis Sentinel; needs the transport option `master_name`."""

    default_port = kombu_redis.SentinelTransport.default_port
    Channel = SentinelChannel
