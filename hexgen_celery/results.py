"""Sending questions and reading their ends through Celery's result backend.

Results are read by polling many at once. Celery's own waiting holds one subscription per question
for as long as the client lives, whether anybody waits or not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator

import redis
from celery import Celery, states
from celery.result import denied_join_result
from kombu.exceptions import OperationalError

from hexgen_celery.answers import Answer, NoAnswer, Outcome
from hexgen_celery.errors import BrokerUnavailable, QuestionFailed
from hexgen_celery.redis_client import lost_broker
from hexgen_celery.workflows.definition import Json

POLL_SECONDS = 0.05
OUTAGE_SECONDS = 30.0


class ResultReader:
    """The root tasks of questions as a client sees them.

    `outage_seconds` is how long Redis may be away while somebody waits: questions outlive its
    restart, so whoever waits for them should too.
    """

    def __init__(self, app: Celery, outage_seconds: float = OUTAGE_SECONDS) -> None:
        self._app = app
        self._outage_seconds = outage_seconds

    def send(self, task: str, workflow_id: str, arguments: Json) -> None:
        """Send the root task of a question.

        Raises:
            BrokerUnavailable: it could not be sent.
        """
        try:
            with denied_join_result():
                self._app.send_task(task, kwargs=arguments, task_id=workflow_id)
        except OperationalError as error:
            raise BrokerUnavailable(
                f"the question could not be sent: {error}",
                field="broker.url",
                hint="check the broker with `hexgen doctor`",
            ) from error

    def as_completed(
        self,
        workflow_ids: Iterable[str],
        timeout: float | None,
        meanwhile: Callable[[Collection[str]], object] = len,
    ) -> Iterator[tuple[str, Outcome]]:
        """Each question's end as it comes, until all have ended or `timeout` seconds passed.

        `meanwhile` is given those that have not, again and again; Redis may fail it.

        Raises:
            BrokerUnavailable: Redis stayed away for longer than `outage_seconds`.
        """
        waiting = dict.fromkeys(workflow_ids)
        until = None if timeout is None else time.monotonic() + timeout
        read_at = time.monotonic()
        while waiting:
            try:
                ended = self._ended(list(waiting))
                meanwhile(waiting.keys() - dict(ended).keys())
                read_at = time.monotonic()
            except (redis.ConnectionError, redis.TimeoutError) as error:
                if time.monotonic() - read_at > self._outage_seconds:
                    raise lost_broker(error) from error
                ended = []
            for workflow_id, outcome in ended:
                del waiting[workflow_id]
                yield workflow_id, outcome
            if until is not None and time.monotonic() >= until:
                return
            if not ended:
                time.sleep(POLL_SECONDS)

    def _ended(self, workflow_ids: list[str]) -> list[tuple[str, Outcome]]:
        backend = self._app.backend
        stored = backend.mget([backend.get_key_for_task(name) for name in workflow_ids])
        metas = [
            (name, backend.decode_result(value))
            for name, value in zip(workflow_ids, stored, strict=True)
            if value is not None
        ]
        return [
            (name, outcome_of(name, meta["status"], meta["result"]))
            for name, meta in metas
            if meta["status"] in states.READY_STATES
        ]


def outcome_of(workflow_id: str, state: str, result: object) -> Outcome:
    """The end of a question from its Celery state and result."""
    if state == states.SUCCESS and isinstance(result, dict):
        return Answer.from_json(result)
    if state == states.REVOKED:
        return NoAnswer(workflow_id, "cancelled", {})
    detail = result.args[0] if isinstance(result, QuestionFailed) and result.args else {}
    if not isinstance(detail, dict):
        detail = {"cause": str(detail)}
    if not detail:
        detail = {"cause": str(result)}
    return NoAnswer(workflow_id, str(detail.get("status") or "rejected"), detail)
