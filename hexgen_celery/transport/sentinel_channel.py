"""The channel to a Redis that Sentinels name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kombu.transport import redis as kombu_redis
from redis.sentinel import Sentinel

from hexgen_celery.transport.channel import OWN_OPTIONS, Channel


class SentinelChannel(Channel, kombu_redis.SentinelChannel):  # type: ignore[misc]
    """A channel to the Redis that Sentinel names.

    Transport options besides Kombu's: `sentinels`, the (host, port) of each, in place of those in
    the URL. Kombu would serve a further URL with the transport of its scheme, not with this one.
    """

    from_transport_options = (
        *kombu_redis.SentinelChannel.from_transport_options,
        *OWN_OPTIONS,
        "sentinels",
    )
    sentinels: Sequence[tuple[str, int]] = ()

    @property
    def server(self) -> str:
        """Sentinels may watch many masters."""
        return f"{super().server}#{self.master_name}"

    def _sentinel_managed_pool(self, asynchronous: bool = False) -> Any:
        if not self.sentinels:
            return super()._sentinel_managed_pool(asynchronous)
        params = self._connparams(asynchronous)
        params = {name: value for name, value in params.items() if name not in ("host", "port")}
        manager = Sentinel(  # type: ignore[no-untyped-call]
            self.sentinels, sentinel_kwargs=self.sentinel_kwargs, **params
        )
        setattr(self, "_async_sentinel_manager" if asynchronous else "_sentinel_manager", manager)
        client = manager.master_for(self.master_name)  # type: ignore[no-untyped-call]
        return client.connection_pool
