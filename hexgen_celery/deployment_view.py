"""What a client can look at in one deployment: questions, queues, instances, figures."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from pydantic import SecretStr

from hexgen_celery.app import create_app
from hexgen_celery.closing import Closing
from hexgen_celery.cluster import resolve_broker
from hexgen_celery.coordination.state import WorkflowStore
from hexgen_celery.databases import open_databases
from hexgen_celery.entrance import Entrance
from hexgen_celery.instances import InstanceDirectory
from hexgen_celery.keys import Keys
from hexgen_celery.learning.store import CalibrationReport, KnowledgeStore
from hexgen_celery.ledger import Ledger
from hexgen_celery.observation import (
    QuestionStatus,
    QueueStatus,
    StuckRequest,
    question_status,
    queue_statuses,
    stuck_requests,
)
from hexgen_celery.overview.counts import ClusterCounts, CountsReader
from hexgen_celery.processes import ProcessDirectory, ProcessRecord
from hexgen_celery.redis_client import connect, naming_a_lost_broker
from hexgen_celery.settings import BrokerSettings, Settings, load_settings
from hexgen_celery.store.lookup import open_reader, stored_trace, unknown_question
from hexgen_celery.tenants import ClassAttainment, Past, TenantReader
from hexgen_celery.trace import TraceReader
from hexgen_celery.workflows.definition import Json

if TYPE_CHECKING:
    from hexgen_celery.live_tuning import TuningEntry
    from hexgen_celery.sql.databases import DatabaseRegistry
    from hexgen_celery.store.reading import StoreReader
    from hexgen_celery.tracing.history import History


class DeploymentView(Closing):
    """Everything about a deployment that can be read, without asking it anything.

    Raises:
        BrokerUnavailable: Redis cannot be reached or refuses the credentials.
        InvalidSettings: the configuration cannot be read.
    """

    def __init__(self, settings: Settings | str | None = None) -> None:
        self.settings = resolve_broker(_settings(settings))
        self.keys = Keys(self.settings.broker.prefix)
        self._redis = connect(self.settings)
        self.app = create_app(self.settings, "client")
        self._store = WorkflowStore(self._redis, self.keys)
        self._entrance = Entrance(self._redis, self._store)

    @naming_a_lost_broker()
    def status(self, workflow_id: str) -> QuestionStatus:
        """Where a question is now, or how it ended; raises UnknownWorkflow."""
        record = self._store.load(workflow_id)
        if record is not None:
            return question_status(record)
        stored = self.past.question(workflow_id) if self.past else None
        if stored is None or self.past is None:
            raise unknown_question(workflow_id)
        from hexgen_celery.store.questions import stored_status

        return stored_status(stored, f"the store {self.past.place}")

    @naming_a_lost_broker()
    def running(self) -> list[QuestionStatus]:
        """Every question that has not ended, the nearest deadline first."""
        ids = cast("list[str]", self._redis.zrange(self.keys.deadlines, 0, -1))
        records = (self._store.load(workflow_id) for workflow_id in ids)
        return [question_status(record) for record in records if record is not None]

    @naming_a_lost_broker()
    def trace(self, workflow_id: str) -> list[Json]:
        """What happened to a question, oldest first; raises UnknownWorkflow."""
        events = self.events.of(workflow_id)
        found = None if events else stored_trace(self.past, workflow_id)
        if not events and found is None:
            raise unknown_question(workflow_id)
        return found.events if found else events

    @naming_a_lost_broker()
    def queues(self) -> list[QueueStatus]:
        """The load of every queue that has work or an instance."""
        _, records = InstanceDirectory(self._redis, self.keys).snapshot()
        return queue_statuses(
            Ledger(self._redis, self.keys).read(), records, self._entrance.unaccepted()
        )

    @naming_a_lost_broker()
    def processes(self) -> list[ProcessRecord]:
        """The workers that were heard of lately, with version, settings and endpoint."""
        return ProcessDirectory(self._redis, self.keys).alive()

    @naming_a_lost_broker()
    def attainment(self, past: Past | None = None) -> list[ClassAttainment]:
        """Questions and met deadlines by tenant and SLO class: in `past` (`tenants.HOUR`, `DAY`),
        else since the deployment began."""
        reader = TenantReader(self._redis, self.keys)
        return reader.read() if past is None else reader.recent(past)

    @naming_a_lost_broker()
    def stuck(self, running: Iterable[QuestionStatus]) -> list[StuckRequest]:
        """The requests of `running` questions that no instance can take now, and why."""
        now, records = InstanceDirectory(self._redis, self.keys).snapshot()
        dead_after = self.settings.workers.dead_after_seconds
        return stuck_requests(running, records, now=now, dead_after_seconds=dead_after)

    @naming_a_lost_broker()
    def calibration(self) -> CalibrationReport:
        """How right the estimates of output tokens and remaining seconds were lately."""
        return KnowledgeStore(self._redis, self.keys).calibration()

    @cached_property
    def registry(self) -> DatabaseRegistry:
        """The registered databases and what is known of them."""
        return open_databases(self._redis, self.keys, self.settings)

    @cached_property
    def events(self) -> TraceReader:
        """The traces of questions, and the deployment's stream of events."""
        return TraceReader(self._redis, self.keys)

    @cached_property
    def past(self) -> StoreReader | None:
        """What the store knows of questions that Redis has forgotten; None without a store."""
        return open_reader(self.settings)

    @cached_property
    def history(self) -> History:
        """The questions that ended lately, with everything about their requests."""
        from hexgen_celery.tracing.history import History

        return History(self._redis, self.keys)

    @naming_a_lost_broker()
    def tunings(self, limit: int = 20) -> list[TuningEntry]:
        """What the live tuner decided and predicted, newest first."""
        from hexgen_celery.live_tuning import TuningStore

        return TuningStore(self._redis, self.keys).recent(limit)

    def redis_time(self) -> float:
        """The broker's clock, in Unix seconds."""
        seconds, microseconds = self._redis.time()
        return seconds + microseconds / 1_000_000

    def redis_version(self) -> str:
        """The broker's version."""
        return str(self._redis.info("server")["redis_version"])

    def redis_info(self) -> dict[str, Any]:
        """The broker's own report on itself, by name."""
        return self._redis.info()

    @naming_a_lost_broker()
    def counts(self) -> ClusterCounts:
        """The figures of the whole deployment."""
        return CountsReader(self._redis, self.settings).read()

    def close(self) -> None:
        """Close every connection."""
        self.app.close()
        self._redis.close()


def _settings(given: Settings | str | None) -> Settings:
    if isinstance(given, Settings):
        return given
    settings = load_settings()
    if given is None:
        return settings
    broker = BrokerSettings(
        url=SecretStr(given),
        prefix=settings.broker.prefix,
        sentinel_master=settings.broker.sentinel_master,
        sentinel_password_file=settings.broker.sentinel_password_file,
    )
    return settings.model_copy(update={"broker": broker})
