"""The Celery tasks of the stages: one body under every stage's name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from celery import Celery

from hexgen_celery.transport.messages import HEADER, Urgency
from workers.requests import AttemptFailed, RequestRunner


def register_stages(app: Celery, tasks: Iterable[str], runner: RequestRunner) -> None:
    """Make `app` run each of `tasks` through `runner`."""

    def stage(task: Any, workflow_id: str, node_id: str, attempt: int) -> str:
        queue = task.request.delivery_info.get("routing_key") or ""
        latest_start = latest_start_of(task.request.get(HEADER))
        return runner.run(workflow_id, node_id, attempt, queue, latest_start)

    for name in tasks:
        app.task(
            stage,
            name=name,
            shared=False,
            bind=True,
            ignore_result=True,
            throws=(AttemptFailed,),
        )


def latest_start_of(header: Any) -> float | None:
    """The rank in a message's urgency header, as it stands in the queue when it is taken.

    None where there is no such header, or one of another release.
    """
    try:
        return Urgency.from_header(header).key
    except ValueError:
        return None
