"""`hexgen.ask`: the task through which every question enters, whatever client sends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol

import redis
import structlog
from celery import Celery
from celery.exceptions import Ignore, Reject

from hexgen_celery.coordination.transitions import Defer, at_once
from hexgen_celery.errors import InvalidSubmission, QuestionFailed
from hexgen_celery.follow_ups import follow_ups
from hexgen_celery.names import ASK
from hexgen_celery.settings import Settings
from hexgen_celery.submission import KnownDatabases, validate
from hexgen_celery.workflows.definition import Json, Submission, WorkflowStatus
from workers.quick_ignore import Arguments, quicken

log = structlog.get_logger(__name__)

POSITIONAL = ("question", "database", "slo_seconds", "tenant", "evidence", "submitted_at")
RECEPTION = "submission"
_NO_REQUEST: Mapping[str, Any] = MappingProxyType({})


Begun = Callable[[str, str], object]


def no_delivery(_delivery_tag: str, _workflow_id: str) -> None:
    """Nothing follows from a question that has begun."""


class Starter(Protocol):
    """The part of the coordinator that questions need."""

    def start(self, submission: Submission, later: Defer) -> None:
        """Begin the workflow; starting it twice changes nothing. Raises `InvalidSubmission`."""
        ...


class SendingThread:
    """Sends the first requests of accepted questions, one after the other.

    A burst of questions is accepted before it is worked on: every deadline is known as early as
    possible, and the most urgent question is not behind a hundred others that are being sent.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "sending")

    def submit(self, work: Callable[[], None]) -> None:
        """Do `work` soon. Should it fail, the outbox is sent by the timers."""
        self._executor.submit(self._attempt, work)

    def start(self) -> None:
        """Nothing: the thread starts with the first work."""

    def stop(self) -> None:
        """Send what waits and end."""
        self._executor.shutdown()

    @staticmethod
    def _attempt(work: Callable[[], None]) -> None:
        try:
            work()
        except redis.RedisError as error:
            log.warning("requests wait in the outbox", error=str(error))
        except Exception:
            # Nobody asks for the work's result: unlogged, the error would be lost with it.
            log.exception("requests wait in the outbox")


class Reception:
    """Turns the arguments of `hexgen.ask` into a running workflow.

    `begun` is told the delivery tag of each message whose question is in Redis now, and its id. The
    clock starts at `submitted_at` where the client sends it, else at receipt: Celery's messages
    carry no time of their own.
    """

    def __init__(
        self,
        settings: Settings,
        databases: KnownDatabases,
        starter: Starter,
        later: Defer = at_once,
        begun: Begun = no_delivery,
    ) -> None:
        self._settings = settings
        self._databases = databases
        self._starter = starter
        self._later = later
        self._begun = begun

    def receive(
        self,
        workflow_id: str,
        arguments: Sequence[Any],
        keywords: Json,
        request: Mapping[str, Any] = _NO_REQUEST,
    ) -> None:
        """Validate and start; a question that was received before goes on where it is.

        `request` is Celery's, which says what is to follow.

        Raises:
            QuestionFailed: the submission is invalid; the argument names the field and the fix.
        """
        try:
            payload = _payload(arguments, keywords)
            submission = validate(payload, self._settings, self._databases, workflow_id=workflow_id)
            wanted = replace(submission, follow_ups=follow_ups(request))
            self._starter.start(wanted, self._later)
        except InvalidSubmission as error:
            log.info("question refused", workflow=workflow_id, error=str(error), field=error.field)
            raise QuestionFailed(_refusal(workflow_id, error)) from None
        self._begun(_delivery_tag(request), workflow_id)
        log.info("question received", workflow=workflow_id, definition=submission.workflow)


def register_ask(
    app: Celery, reception: Reception, on_refused: Callable[[str], object] = str
) -> None:
    """Make `app` accept questions; `on_refused` is told the code of the reason of each refusal."""

    def ask(task: Any, /, *arguments: Any, **keywords: Any) -> None:
        given = Arguments(arguments, keywords)
        if len(arguments) == 1 and isinstance(arguments[0], Arguments):
            given = arguments[0]
        try:
            reception.receive(task.request.id, given.positional, given.keywords, vars(task.request))
        except QuestionFailed as failed:
            on_refused(failed.args[0]["code"])
            raise
        except redis.RedisError as error:
            raise Reject(str(error), requeue=True) from error
        raise Ignore

    app.task(ask, name=ASK, shared=False, bind=True, typing=False, throws=(QuestionFailed,))
    quicken(app, ASK, reception.receive)


def _delivery_tag(request: Mapping[str, Any]) -> str:
    properties = request.get("properties") or {}
    return str(properties.get("delivery_tag") or "")


def _payload(arguments: Sequence[Any], keywords: Json) -> Json:
    if len(arguments) > len(POSITIONAL):
        raise InvalidSubmission(
            f"{ASK} takes at most {len(POSITIONAL)} positional arguments, got {len(arguments)}",
            hint=f"they are: {', '.join(POSITIONAL)}",
        )
    positional = dict(zip(POSITIONAL, arguments, strict=False))
    for name in positional:
        if name in keywords:
            raise InvalidSubmission(
                f"{name} is given twice", field=name, hint="give it by position or by name"
            )
    return {**positional, **keywords}


def _refusal(workflow_id: str, error: InvalidSubmission) -> Json:
    return {
        **error.to_json(),
        "workflow_id": workflow_id,
        "status": str(WorkflowStatus.FAILED),
        "stage": RECEPTION,
        "cause": str(error),
        "last_sql": "",
    }
