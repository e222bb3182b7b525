"""The Celery tasks of the stages: one body under every stage's name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from celery import Celery

from workers.requests import AttemptFailed, RequestRunner


def register_stages(app: Celery, tasks: Iterable[str], runner: RequestRunner) -> None:
    """Make `app` run each of `tasks` through `runner`."""

    def stage(task: Any, workflow_id: str, node_id: str, attempt: int) -> str:
        queue = task.request.delivery_info.get("routing_key") or ""
        return runner.run(workflow_id, node_id, attempt, queue)

    for name in tasks:
        app.task(
            stage,
            name=name,
            shared=False,
            bind=True,
            ignore_result=True,
            throws=(AttemptFailed,),
        )
