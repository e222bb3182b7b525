"""The typed Python API: ask questions, wait for answers, look at what runs.

    with Client("redis://localhost:6379/0") as client:
        answer = client.ask("How many heroes can fly?", "superhero", slo_seconds=30).result()
        print(answer.columns, answer.rows, answer.deadline_met)

Whatever can be checked without a worker is checked when a question is submitted.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import SecretStr

from hexgen_celery.answers import Answer, AnswerPending, Cell, NoAnswer, Outcome, Tokens
from hexgen_celery.app import create_app
from hexgen_celery.asking import Pending, Question
from hexgen_celery.closing import Closing
from hexgen_celery.cluster import resolve_broker
from hexgen_celery.coordination.state import WorkflowStore
from hexgen_celery.databases import open_databases
from hexgen_celery.entrance import Entrance
from hexgen_celery.errors import BrokerUnavailable, InvalidSubmission
from hexgen_celery.instances import InstanceDirectory
from hexgen_celery.keys import Keys
from hexgen_celery.learning.store import CalibrationReport, KnowledgeStore
from hexgen_celery.ledger import Ledger
from hexgen_celery.names import ASK
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
from hexgen_celery.results import ResultReader
from hexgen_celery.settings import BrokerSettings, Settings, load_settings
from hexgen_celery.store.lookup import open_reader, stored_trace, unknown_question
from hexgen_celery.submission import validate
from hexgen_celery.tenants import ClassAttainment, Past, TenantReader
from hexgen_celery.trace import TraceReader
from hexgen_celery.workflows.definition import Json, Submission

if TYPE_CHECKING:
    from hexgen_celery.live_tuning import TuningEntry
    from hexgen_celery.sql.databases import AddProgress, DatabaseEntry, DatabaseRegistry
    from hexgen_celery.store.reading import StoreReader
    from hexgen_celery.tracing.history import History

__all__ = [
    "Answer",
    "AnswerPending",
    "Cell",
    "ClassAttainment",
    "Client",
    "NoAnswer",
    "Outcome",
    "Pending",
    "Question",
    "QuestionStatus",
    "QueueStatus",
    "Tokens",
]

CANCEL_SECONDS = 5.0


class Client(Closing):
    """A client of one deployment: by its settings, by its broker's URL, or as configured here.

    Thread-safe. Close it, or use it as a context manager.

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
        self._results = ResultReader(self.app)

    def ask(
        self,
        question: str,
        database: str,
        slo_seconds: float | None = None,
        *,
        evidence: str = "",
        tenant: str | None = None,
        options: Mapping[str, Any] | None = None,
        slo_class: str | None = None,
    ) -> Pending:
        """Ask one question; returns at once.

        Raises:
            InvalidSubmission: naming the field at fault, before anything is sent.
            UnknownDatabase: the database was never registered.
        """
        asked = Question(
            question,
            database,
            slo_seconds,
            evidence,
            tenant,
            options=options or {},
            slo_class=slo_class,
        )
        return self.ask_many([asked])[0]

    @naming_a_lost_broker()
    def ask_many(self, questions: Iterable[Question]) -> list[Pending]:
        """Ask all of them together; raises like `ask`, with the number at fault: none is sent."""
        now = time.time()
        default = self.settings.deadline.default_slo_seconds
        payloads = [(asked, asked.payload(default, now)) for asked in questions]
        checked = [
            self._check(payload, f"question {number}: " if len(payloads) > 1 else "")
            for number, (_, payload) in enumerate(payloads, start=1)
        ]
        return [
            self._send(asked, payload, submission.slo_seconds)
            for (asked, payload), submission in zip(payloads, checked, strict=True)
        ]

    def pending(self, workflow_id: str) -> Pending:
        """A question that was asked earlier, perhaps by another client; raises UnknownWorkflow."""
        asked = self.status(workflow_id)
        question = Question(asked.question, asked.database, asked.slo_seconds, tenant=asked.tenant)
        return Pending(workflow_id, question, asked.slo_seconds, self)

    def completed(
        self, pendings: Iterable[Pending], *, timeout: float | None = None
    ) -> Iterator[tuple[Pending, Outcome]]:
        """Each question as it ends, until all have or `timeout` seconds have passed."""
        waiting = {pending.id: pending for pending in pendings}
        for workflow_id, outcome in self._results.as_completed(waiting, timeout):
            yield waiting[workflow_id], outcome

    def ended(self, workflow_ids: Iterable[str]) -> Iterator[tuple[str, Outcome]]:
        """The outcome of each of these questions that has ended, by id; does not wait.

        One that Redis has forgotten comes from the store: without rows, and its detail has
        `source` = `store`.
        """
        from hexgen_celery.store.endings import find_endings

        return find_endings(self._results, self.past, workflow_ids)

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
    def cancel(self, workflow_id: str) -> bool:
        """Stop all work on a question and wait until it has ended; False when it had already.

        Raises:
            UnknownWorkflow: no such question is known, and none waits to be accepted.
            BrokerUnavailable: no control worker confirmed it.
        """
        record = self._store.load(workflow_id)
        if record is not None and record.finished_at is not None:
            return False
        if record is None and not self._entrance.awaits(workflow_id):
            raise unknown_question(workflow_id)
        self.app.control.revoke(workflow_id)
        outcome = next(iter(self._results.as_completed([workflow_id], CANCEL_SECONDS)), None)
        if outcome is None:
            raise BrokerUnavailable(
                f"nobody confirmed the end of question {workflow_id}",
                hint="check that a control worker runs with `hexgen doctor`",
            )
        return isinstance(outcome[1], NoAnswer) and outcome[1].status == "cancelled"

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

    @naming_a_lost_broker()
    def databases(self) -> list[DatabaseEntry]:
        """Every registered database."""
        return [self.registry.entry(name) for name in self.registry.names()]

    def add_database(
        self, path: Path, name: str | None = None, progress: AddProgress | None = None
    ) -> list[DatabaseEntry]:
        """Register a SQLite file, or all databases of a BIRD directory; raises InvalidDatabase."""
        given = {} if progress is None else {"progress": progress}
        return self.registry.add(path, name, **given)

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

    def _check(self, payload: Json, place: str) -> Submission:
        # A client that was given no tenants cannot know their classes; control workers do.
        known = {} if self.settings.tenants else {"slo_class": None}
        try:
            return validate({**payload, **known}, self.settings, self.registry)
        except InvalidSubmission as error:
            message = f"{place}{error.message}"
            raise type(error)(message, hint=error.hint, field=error.field) from error

    def _send(self, asked: Question, payload: Json, slo_seconds: float) -> Pending:
        workflow_id = str(uuid.uuid4())
        self._results.send(ASK, workflow_id, payload)
        return Pending(workflow_id, asked, slo_seconds, self)


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
