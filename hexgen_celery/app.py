"""The Celery application: one configuration for clients, workers and tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from celery import Celery
from kombu import Exchange, Queue

from hexgen_celery.broker import broker_url, celery_url, queue_url
from hexgen_celery.cluster import resolve_broker
from hexgen_celery.keys import Keys
from hexgen_celery.names import (
    ASK,
    ASK_QUEUE,
    CONTROL_QUEUE,
    DEFAULT_QUEUE,
    LLM_TASKS,
    SQL_QUEUE,
    SQL_TASKS,
    TUNE_QUEUE,
)
from hexgen_celery.sentinels import transport_options
from hexgen_celery.settings import Settings
from hexgen_celery.transport import ALIAS, SENTINEL_ALIAS

Role = Literal["client", "llm", "sql", "control"]
Route = Callable[..., dict[str, Any] | None]

HEALTH_CHECK_SECONDS = 25
POOLED_CONNECTIONS = 32
TRANSPORT_CONNECTIONS = 256


def create_app(settings: Settings, role: Role = "client") -> Celery:
    """Build the application of one process.

    The transport options are the same for every role, because Kombu's redelivery obeys the sweeping
    worker's values, not the consuming one's.

    Raises:
        BrokerUnavailable: no broker is configured or running.
    """
    settings = resolve_broker(settings)
    url = broker_url(settings)
    app = Celery(
        f"hexgen.{role}",
        broker=queue_url(url, settings.broker.transport),
        backend=celery_url(url),
        events="hexgen_celery.events:PipedEvents",
    )
    app.set_current()
    app.conf.update(
        **_serialization(),
        **_delivery(),
        **_transport(settings),
        **_connections(settings),
        **_observation(),
        result_expires=int(settings.broker.result_ttl_seconds),
        task_default_queue=DEFAULT_QUEUE,
        task_queues=_queues(settings),
        task_routes=(_fixed_route,),
    )
    return app


def use_route(app: Celery, route: Route) -> None:
    """Let `route` choose the queue of every message, before the fixed ones."""
    app.conf.task_routes = (route, _fixed_route)
    app.amqp.flush_routes()
    app.amqp.router = app.amqp.Router()


def _fixed_route(name: str, *_args: Any, **_options: Any) -> dict[str, str] | None:
    if name == ASK:
        return {"queue": ASK_QUEUE}
    if name in SQL_TASKS:
        return {"queue": SQL_QUEUE}
    if name in LLM_TASKS:
        raise LookupError(f"{name} has no fixed queue; the router chooses one per request")
    return None


def _queues(settings: Settings) -> list[Queue]:
    fixed = (ASK_QUEUE, DEFAULT_QUEUE, CONTROL_QUEUE, SQL_QUEUE, TUNE_QUEUE)
    names = (*fixed, *(pool.queue for pool in settings.pools))
    return [Queue(name, Exchange(name, type="direct"), routing_key=name) for name in names]


def _serialization() -> dict[str, Any]:
    return {
        "task_serializer": "json",
        "result_serializer": "json",
        "event_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        "enable_utc": True,
        "timezone": "UTC",
    }


def _delivery() -> dict[str, Any]:
    """Late acknowledgement is safe here: every attempt is claimed once, whoever delivers it."""
    return {
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_create_missing_queues": True,
        "task_publish_retry": False,
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": True,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
    }


def _transport(settings: Settings) -> dict[str, Any]:
    timeout = settings.broker.socket_timeout_seconds
    options: dict[str, Any] = {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "socket_keepalive": True,
        "health_check_interval": HEALTH_CHECK_SECONDS,
        "visibility_timeout": settings.broker.visibility_timeout_seconds,
    }
    sentinels = transport_options(settings.broker)
    options |= sentinels
    if settings.broker.transport == "kombu":
        return {"broker_transport_options": options}
    queues = settings.queues
    options |= {
        "max_connections": TRANSPORT_CONNECTIONS,
        "body_encoding": "utf-8",
        "queue_root": Keys(settings.broker.prefix).queue_root,
        "lease_seconds": queues.lease_seconds,
        "max_deliveries": queues.max_deliveries,
        "dead_letters": queues.dead_letters,
        "claim_every": queues.demoted_every,
        "claim_patience": queues.patience,
        "claim_depth": queues.depth,
    }
    alias = SENTINEL_ALIAS if sentinels else ALIAS
    return {"broker_transport": alias, "broker_transport_options": options}


def _connections(settings: Settings) -> dict[str, Any]:
    timeout = settings.broker.socket_timeout_seconds
    backend = {
        "visibility_timeout": settings.broker.visibility_timeout_seconds,
        **transport_options(settings.broker),
    }
    return {
        "broker_connection_timeout": timeout,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,
        "broker_pool_limit": POOLED_CONNECTIONS,
        "redis_socket_timeout": timeout,
        "redis_socket_connect_timeout": timeout,
        "redis_socket_keepalive": True,
        "redis_backend_health_check_interval": HEALTH_CHECK_SECONDS,
        "result_backend_transport_options": backend,
    }


def _observation() -> dict[str, Any]:
    return {
        "worker_send_task_events": True,
        "task_send_sent_event": False,
        "task_track_started": False,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_proc_alive_timeout": 30.0,
    }
