"""One process's connection to a deployment: everything that a worker needs, wired together."""

from __future__ import annotations

from dataclasses import dataclass

import redis
from celery import Celery

from hexgen_celery.app import Role, create_app, use_route
from hexgen_celery.coordination.coordinator import Coordinator
from hexgen_celery.coordination.timers import Backlog
from hexgen_celery.databases import open_databases
from hexgen_celery.keys import Keys
from hexgen_celery.publisher import CeleryPublisher, Withdraw, leave_to_the_claim
from hexgen_celery.redis_client import connect
from hexgen_celery.router import LiveRouter
from hexgen_celery.settings import Settings
from hexgen_celery.sql.databases import DatabaseRegistry
from hexgen_celery.transport.inspection import waiting_in
from hexgen_celery.transport.messages import token_of
from hexgen_celery.transport.scripts import QueueScripts
from hexgen_celery.workflows.registered_schemas import RegisteredSchemas
from hexgen_celery.workflows.registry import load_definitions
from hexgen_celery.workflows.tokens import RatioCounter


@dataclass(frozen=True, slots=True)
class Deployment:
    """What a process holds of its deployment. `worker` is its Celery node name."""

    settings: Settings
    keys: Keys
    redis: redis.Redis
    app: Celery
    databases: DatabaseRegistry
    coordinator: Coordinator
    router: LiveRouter
    worker: str

    def close(self) -> None:
        """Give back the connections to Redis, which nobody uses behind our back any more."""
        self.router.close()
        self.app.close()
        self.redis.close()


def connect_deployment(settings: Settings, role: Role, worker: str = "") -> Deployment:
    """Connect to Redis and build the application, router, publisher and coordinator.

    Raises:
        BrokerUnavailable: Redis cannot be reached or refuses the credentials.
        InvalidSettings: a policy, profile or the stages module cannot be used.
    """
    client = connect(settings)
    keys = Keys(settings.broker.prefix)
    app = create_app(settings, role)
    router = LiveRouter(client, keys, settings)
    use_route(app, router.route)
    databases = open_databases(client, keys, settings)
    coordinator = Coordinator(
        client,
        keys,
        settings,
        load_definitions(settings, RegisteredSchemas(databases, RatioCounter())),
        CeleryPublisher(app, router, worker, withdraw=_withdraw(client, keys, settings)),
        backlog=_backlog(client, keys, settings),
    )
    return Deployment(settings, keys, client, app, databases, coordinator, router, worker)


def _withdraw(client: redis.Redis, keys: Keys, settings: Settings) -> Withdraw:
    """How requests that nobody wants any more leave their queues; Kombu's lists cannot do it."""
    if settings.broker.transport == "kombu":
        return leave_to_the_claim
    scripts = QueueScripts(client, keys.queue_root)
    return lambda task_ids: scripts.remove([token_of(task_id) for task_id in task_ids])


def _backlog(client: redis.Redis, keys: Keys, settings: Settings) -> Backlog:
    """How the coordinator asks the broker how much waits in a queue."""
    if settings.broker.transport == "kombu":
        return client.llen
    return waiting_in(client, keys.queue_root)
