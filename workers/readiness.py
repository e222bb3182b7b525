"""When a cluster that was just started can take questions."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

import redis
from celery import Celery
from kombu.exceptions import OperationalError

from hexgen_celery.app import create_app
from hexgen_celery.errors import BrokerUnavailable
from hexgen_celery.instances import InstanceDirectory
from hexgen_celery.keys import Keys
from hexgen_celery.redis_client import connect
from hexgen_celery.settings import Settings
from workers.cluster_plan import ClusterPlan

_PING_SECONDS = 0.5
_HEALTH_SECONDS = 1.0


def wait_until_ready(settings: Settings, plan: ClusterPlan, tend: Callable[[], bool]) -> bool:
    """Wait until all servers are healthy, all workers answer and all our instances are ready.

    `tend` is called between two looks and paces them; False when it says stop. Servers that others
    run are not waited for.
    """
    app = create_app(settings, "client")
    servers = {instance.url for instance in plan.instances if instance.is_ours}
    workers = {spec.name for spec in plan.workers}
    instances = {instance.name for instance in plan.instances if instance.is_ours}
    while servers or workers or instances:
        if not tend():
            return False
        servers = {url for url in servers if not is_healthy(url)}
        if not servers:
            workers -= set(answering_workers(app, len(workers)))
        if not workers:
            instances -= ready_instances(settings)
    return True


def ready_instances(settings: Settings) -> set[str]:
    """Names of the instances that requests can be sent to now."""
    with contextlib.suppress(BrokerUnavailable, redis.RedisError), connect(settings) as client:
        directory = InstanceDirectory(client, Keys(settings.broker.prefix))
        now, records = directory.snapshot()
        dead_after = settings.workers.dead_after_seconds
        return {record.name for record in records if record.alive(now, dead_after)}
    return set()


def is_healthy(url: str, path: str = "/health") -> bool:
    """Whether the server at `url` answers `path` with 200."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.netloc, timeout=_HEALTH_SECONDS)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    return False


def answering_workers(app: Celery, expected: int) -> Iterable[str]:
    """Names (without the host) of the Celery workers that answer a ping now."""
    with contextlib.suppress(OperationalError, OSError):
        replies = app.control.ping(timeout=_PING_SECONDS, limit=expected)
        return [name.partition("@")[0] for reply in replies for name in reply]
    return []
