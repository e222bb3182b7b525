"""Ending the leases of a process that is known to have died, so that nobody waits for their end.

Without it a killed worker's requests rest until its leases run out, because nobody else can tell a
dead process from a slow one. Whoever started it can.
"""

from __future__ import annotations

import socket

import redis
import structlog

from hexgen_celery.keys import Keys
from hexgen_celery.scripts import Scripts
from hexgen_celery.settings import Settings
from hexgen_celery.transport.leases import holder_prefix
from hexgen_celery.transport.scripts import QueueScripts
from hexgen_celery.upkeep.waiting import request_of

log = structlog.get_logger(__name__)


def end_leases_of(
    pid: int, client: redis.Redis, binary: redis.Redis, keys: Keys, settings: Settings
) -> int:
    """End every lease that process `pid` of this host held; how many messages it held.

    Their requests get a new attempt with the next tick of a control worker. To be called once the
    process has been waited for: its id must not be anybody else's yet. `binary` answers in bytes.

    Raises:
        redis.RedisError: Redis is away; the leases end by themselves.
    """
    held = QueueScripts(binary, keys.queue_root).disown(holder_prefix(socket.gethostname(), pid))
    requests = [str(ref) for message in held if (ref := request_of(message)) is not None]
    Scripts(client, keys, settings).end_leases(requests)
    if held:
        log.info("leases of a dead process ended", pid=pid, requests=requests)
    return len(held)
