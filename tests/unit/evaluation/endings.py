"""Answers as a client gets them."""

from __future__ import annotations

from typing import Any

from hexgen_celery.answers import Answer


def answer(sql: str, **detail: Any) -> Answer:
    """An answered question; `detail` adds to or replaces what it tells."""
    return Answer.from_json(
        {
            "workflow_id": "wf",
            "question": "?",
            "database": "shop",
            "columns": ["x"],
            "rows": [[1]],
            "truncated": False,
            "sql": sql,
            "submitted_at": 0.0,
            "finished_at": 2.0,
            "latency_seconds": 2.0,
            "slo_seconds": 60.0,
            "deadline": 60.0,
            "deadline_met": True,
            **detail,
        }
    )
