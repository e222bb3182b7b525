"""Names on the wire: Celery tasks and queues."""

from __future__ import annotations

from typing import Final

ASK: Final = "hexgen.ask"
ASK_QUEUE: Final = "hexgen.ask"
TUNE: Final = "hexgen.tune"
TUNE_QUEUE: Final = "hexgen.tune"
DEFAULT_QUEUE: Final = "celery"
CONTROL_QUEUE: Final = "hexgen.control"
SQL_QUEUE: Final = "sql"
GPU_QUEUES: Final = "gpu."
"""How the queues of pools and of their instances begin."""
TASK_PREFIX: Final = "hexgen."

LLM_STAGES: Final = (
    "schema_linking",
    "candidate_generation",
    "self_correction",
    "evaluation",
    "chat",
)
SQL_STAGES: Final = ("execute_sql",)


def stage_task(stage: str) -> str:
    """The Celery task that runs requests of `stage`."""
    return TASK_PREFIX + stage


LLM_TASKS: Final = tuple(map(stage_task, LLM_STAGES))
SQL_TASKS: Final = tuple(map(stage_task, SQL_STAGES))


def stage_task_id(workflow_id: str, node_id: str, attempt: int) -> str:
    """The Celery id of one attempt at one request."""
    return f"{workflow_id}/{node_id}/{attempt}"
