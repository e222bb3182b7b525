"""Questions through the whole stack on real vLLM, at given moments, with the times they took."""

from __future__ import annotations

import time
import uuid
from typing import Any

from hexgen_celery.api import Client
from hexgen_celery.coordination.state import WorkflowRecord
from hexgen_celery.names import ASK
from hexgen_celery.workloads import Workload, WorkloadQuestion
from hexgen_celery.workloads.canonical import dump_question
from tests.benchmarks.agreement import SLO_SECONDS
from tests.benchmarks.fidelity_timeline import QuestionTimes, real_question

PATIENCE_SECONDS = 600.0
_POLL_SECONDS = 3.0


def ask_all(client: Client, workload: Workload) -> list[QuestionTimes]:
    """Ask every question at its moment; their times in order of arrival, once all are answered.

    Raises:
        RuntimeError: some were not answered in time.
    """
    start = time.time() + 0.5
    ids = []
    for question in workload.questions:
        due = start + (question.arrival or 0.0)
        time.sleep(max(0.0, due - time.time()))
        ids.append(_ask(client, question, due))
    records = _answers(client, ids, start)
    return [real_question(records[name], start) for name in ids]


def _ask(client: Client, question: WorkloadQuestion, due: float) -> str:
    payload: dict[str, Any] = {
        "workflow": "trace",
        "question": "",
        "database": "",
        "submitted_at": due,
        "slo_seconds": SLO_SECONDS,
        "options": {"line": dump_question(question)},
    }
    return str(client.app.send_task(ASK, kwargs=payload, task_id=str(uuid.uuid4())).id)


def _answers(client: Client, ids: list[str], since: float) -> dict[str, WorkflowRecord]:
    until = time.time() + PATIENCE_SECONDS
    found: dict[str, WorkflowRecord] = {}
    while time.time() < until:
        answered = client.history.answered(since=since).records
        found = {one.submission.workflow_id: one for one in answered}
        if found.keys() >= set(ids):
            return found
        time.sleep(_POLL_SECONDS)
    missing = len(set(ids) - found.keys())
    raise RuntimeError(f"{missing} of {len(ids)} questions were not answered")
