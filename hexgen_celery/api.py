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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexgen_celery.answers import Answer, AnswerPending, Cell, NoAnswer, Outcome, Tokens
from hexgen_celery.asking import Pending, Question
from hexgen_celery.asking_again import AskingAgain
from hexgen_celery.deployment_view import DeploymentView
from hexgen_celery.errors import BrokerUnavailable, InvalidSubmission
from hexgen_celery.names import ASK
from hexgen_celery.observation import QuestionStatus, QueueStatus
from hexgen_celery.redis_client import naming_a_lost_broker
from hexgen_celery.results import ResultReader
from hexgen_celery.settings import Settings
from hexgen_celery.store.lookup import unknown_question
from hexgen_celery.submission import validate
from hexgen_celery.tenants import ClassAttainment
from hexgen_celery.workflows.definition import Json, Submission

if TYPE_CHECKING:
    from hexgen_celery.sql.databases import AddProgress, DatabaseEntry

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


class Client(DeploymentView):
    """A client of one deployment: by its settings, by its broker's URL, or as configured here.

    Thread-safe. Close it, or use it as a context manager. What can be looked at is in its base.

    Raises:
        BrokerUnavailable: Redis cannot be reached or refuses the credentials.
        InvalidSettings: the configuration cannot be read.
    """

    def __init__(self, settings: Settings | str | None = None) -> None:
        super().__init__(settings)
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
        """Each question as it ends, until all have or `timeout` seconds have passed.

        One of this client's that Redis has lost, as a crash may lose its last writes, is asked
        again under its own id.
        """
        waiting = {pending.id: pending for pending in pendings}
        sent = {name: each.sent for name, each in waiting.items() if each.sent is not None}
        again = AskingAgain(sent, self._entrance.known, partial(self._results.send, ASK))
        for workflow_id, outcome in self._results.as_completed(waiting, timeout, again.look):
            yield waiting[workflow_id], outcome

    def ended(self, workflow_ids: Iterable[str]) -> Iterator[tuple[str, Outcome]]:
        """The outcome of each of these questions that has ended, by id; does not wait.

        One that Redis has forgotten comes from the store: without rows, and its detail has
        `source` = `store`.
        """
        from hexgen_celery.store.endings import find_endings

        return find_endings(self._results, self.past, workflow_ids)

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
    def databases(self) -> list[DatabaseEntry]:
        """Every registered database."""
        return [self.registry.entry(name) for name in self.registry.names()]

    def add_database(
        self, path: Path, name: str | None = None, progress: AddProgress | None = None
    ) -> list[DatabaseEntry]:
        """Register a SQLite file, or all databases of a BIRD directory; raises InvalidDatabase."""
        given = {} if progress is None else {"progress": progress}
        return self.registry.add(path, name, **given)

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
        return Pending(workflow_id, asked, slo_seconds, self, payload)
