"""A Celery client's `revoke` of a question, mapped to our cancellation.

Celery's own command remembers ids in each worker's memory, which a worker started later does not
know, and its `terminate` needs processes to kill. Ours cancels the question in the coordinator,
which also keeps one that is still in the queue from starting, whichever worker meets it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import redis
import structlog
from celery import Celery
from celery.utils.functional import maybe_list
from celery.worker.control import Panel

from hexgen_celery.errors import UnknownWorkflow

log = structlog.get_logger(__name__)

REASON = "revoked"


class Cancellable(Protocol):
    """The part of the coordinator that revocation needs."""

    def cancel(self, workflow_id: str, reason: str = "cancelled") -> bool:
        """End the question; False when it is unknown or already over."""
        ...

    def record(self, workflow_id: str) -> object:
        """The question's state; raises `UnknownWorkflow`."""
        ...


class RevocationService:
    """Carries out revokes in a thread, so that the worker's event loop never waits for them."""

    def __init__(self, app: Celery, questions: Cancellable) -> None:
        self._app = app
        self._questions = questions
        self._ids: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="revocations", daemon=True)

    def start(self) -> None:
        """Take over the `revoke` command of this process."""
        install_revoke(self._ids.put)
        self._thread.start()

    def stop(self) -> None:
        """Carry out what waits and end."""
        self._ids.put(None)
        self._thread.join()

    def revoke(self, task_id: str) -> None:
        """Cancel the question; one that never started ends for its client at once.

        One that has ended is left alone, also while its result is still on its way to the client.
        """
        if self._questions.cancel(task_id, REASON) or self._is_known(task_id):
            return
        backend = self._app.backend
        if backend.get_state(task_id) not in backend.READY_STATES:
            backend.mark_as_revoked(task_id, reason=REASON, store_result=True)

    def _is_known(self, task_id: str) -> bool:
        try:
            self._questions.record(task_id)
        except UnknownWorkflow:
            return False
        return True

    def _run(self) -> None:
        while (task_id := self._ids.get()) is not None:
            try:
                self.revoke(task_id)
            except redis.RedisError as error:
                log.warning("revoke not carried out", workflow=task_id, error=str(error))
            except Exception:
                # Whatever one id meets must not keep the revokes behind it from being carried out.
                log.exception("revoke failed", workflow=task_id)


def install_revoke(on_revoke: Callable[[str], object]) -> None:
    """Replace this process's `revoke` command; `on_revoke` is called with each id."""

    def revoke(_state: Any, task_id: str | Iterable[str], **_options: Any) -> dict[str, str]:
        """Revoke questions by id; `terminate` makes no difference."""
        ids = [str(name) for name in maybe_list(task_id) or ()]
        for name in ids:
            on_revoke(name)
        return {"ok": f"{len(ids)} revoked"}

    Panel.register(revoke, type="control", variadic="task_id", signature="[id1 [id2 …]]")


def leave_revoke_to_control_workers() -> None:
    """Accept the command in workers that only run stages, and do nothing."""
    install_revoke(lambda _task_id: None)
