"""Kombu's poller with lanes: it registers their connections and lets them claim in turn."""

from __future__ import annotations

import time
from queue import Empty
from typing import TYPE_CHECKING, Any

from kombu.log import get_logger
from kombu.transport import redis as kombu_redis

from hexgen_celery.transport.lanes import WAIT_SECONDS, Doing, Lane

if TYPE_CHECKING:
    from hexgen_celery.transport.channel import Channel

logger = get_logger(__name__)


class LanePoller(kombu_redis.MultiChannelPoller):  # type: ignore[misc]
    """Polls the lanes of every channel, beside what Kombu polls by itself.

    One claim at a time per channel: Celery's limit on reserved requests cannot count what is still
    on its way.
    """

    def on_poll_start(self) -> None:
        """Let every channel that may consume claim or wait."""
        super().on_poll_start()
        for channel in self._channels:
            self._start_lanes(channel)

    def on_readable(self, fileno: int) -> Any:
        """A reply has arrived."""
        channel, lane = self._lane_of(fileno)
        if lane is None:
            return super().on_readable(fileno)
        if lane.doing is Doing.IDLE:
            # Nothing is expected: the server has closed the connection.
            lane.client.connection.disconnect()
            raise Empty
        if not channel.receive(lane):
            raise Empty
        return True

    def maybe_check_brpop_health(self) -> None:
        """Drop connections whose reply is overdue, those of lanes too."""
        super().maybe_check_brpop_health()
        now = time.monotonic()
        for channel in self._channels:
            overdue = WAIT_SECONDS + channel.health_check_interval
            for lane in channel.lanes:
                if lane.doing is not Doing.IDLE and now - lane.sent_at > overdue:
                    logger.warning("%s got no reply; dropping its connection", lane.type)
                    lane.client.connection.disconnect()

    def _start_lanes(self, channel: Channel) -> None:
        for lane in channel.lanes_in_turn():
            if lane.doing is not Doing.IDLE and not self._is_connected(channel, lane):
                lane.reset()
        if not channel.may_claim():
            return
        claiming = any(lane.doing is Doing.CLAIMING for lane in channel.lanes)
        for lane in channel.lanes_in_turn():
            if lane.may_start and (lane.is_waiting_next or not claiming):
                claiming = claiming or not lane.is_waiting_next
                self._start(channel, lane)

    def _start(self, channel: Channel, lane: Lane) -> None:
        if not self._is_connected(channel, lane):
            self._register(channel, lane.client, lane.type)
        lane.start()

    def _is_connected(self, channel: Channel, lane: Lane) -> bool:
        return bool(self._client_registered(channel, lane.client, lane.type))

    def forget(self, channel: Channel, lane: Lane) -> None:
        """A lane is closed: its connection is polled no more."""
        socket = self._chan_to_sock.pop((channel, lane.client, lane.type), None)
        if socket is None:
            return
        for fileno, entry in list(self._fd_to_chan.items()):
            if entry == (channel, lane.type):
                del self._fd_to_chan[fileno]

    def _lane_of(self, fileno: int) -> tuple[Any, Lane | None]:
        channel, kind = self._fd_to_chan.get(fileno, (None, ""))
        if channel is None or not kind.startswith("lane "):
            return channel, None
        return channel, channel.lane_named(kind)
