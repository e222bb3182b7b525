"""The trace of a question from wherever it is still known: Redis first, then the store.

SQLAlchemy is imported only for a PostgreSQL store, and only where Redis does not know the question:
it takes longer to import than everything else here takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexgen_celery.cluster import resolve_broker
from hexgen_celery.errors import BrokerUnavailable, UnknownWorkflow
from hexgen_celery.keys import Keys
from hexgen_celery.redis_client import connect, naming_a_lost_broker
from hexgen_celery.settings import Settings
from hexgen_celery.store.sqlite_trace import plain_file, sqlite_events
from hexgen_celery.trace import TraceReader

if TYPE_CHECKING:
    from hexgen_celery.store.reading import StoreReader
    from hexgen_celery.workflows.definition import Json

REDIS = "Redis"


@dataclass(frozen=True, slots=True)
class FoundTrace:
    """The events of a question, oldest first, and where they came from."""

    events: list[Json]
    source: str


def find_trace(settings: Settings, workflow_id: str) -> FoundTrace:
    """What happened to a question.

    Raises:
        UnknownWorkflow: neither Redis nor the store knows it.
        BrokerUnavailable: Redis is away, and the store does not know it.
        StoreUnavailable, StoreOutdated: Redis does not know it, and the store cannot tell.
    """
    try:
        events = _from_redis(settings, workflow_id)
        absent = None
    except BrokerUnavailable as error:
        events, absent = [], error
    if events:
        return FoundTrace(events, REDIS)
    found = _from_store(settings, workflow_id)
    if found is not None:
        return found
    raise absent or unknown_question(workflow_id)


def stored_trace(reader: StoreReader | None, workflow_id: str) -> FoundTrace | None:
    """The trace as the store has it, or None."""
    question = reader.question(workflow_id) if reader else None
    if reader is None or question is None:
        return None
    return FoundTrace(question.events, f"the store {reader.place}")


def open_reader(settings: Settings) -> StoreReader | None:
    """A reader of the store; None where nothing is recorded."""
    if not settings.store.enabled:
        return None
    from hexgen_celery.store.engine import open_store
    from hexgen_celery.store.reading import StoreReader

    return StoreReader(open_store(settings, writing=False), settings.broker.prefix)


def unknown_question(workflow_id: str) -> UnknownWorkflow:
    """The error for an id that names no question."""
    return UnknownWorkflow(
        f"no question {workflow_id!r} is known",
        field="id",
        hint="check the id; Redis forgets a question broker.result_ttl_seconds after its end, "
        "the store after store.keep_workflows_days",
    )


def _from_store(settings: Settings, workflow_id: str) -> FoundTrace | None:
    file = plain_file(settings)
    if not settings.store.enabled or file is None:
        return stored_trace(open_reader(settings), workflow_id)
    events = sqlite_events(file, settings.store.busy_timeout_seconds, workflow_id)
    return FoundTrace(events, f"the store sqlite:///{file}") if events else None


def _from_redis(settings: Settings, workflow_id: str) -> list[Json]:
    resolved = resolve_broker(settings)
    with naming_a_lost_broker(), connect(resolved) as client:
        return TraceReader(client, Keys(resolved.broker.prefix)).of(workflow_id)
