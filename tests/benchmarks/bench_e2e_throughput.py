"""How many LLM requests a second the whole path carries when the servers answer at once.

Multi-stage questions (eight requests each, in the shape of the pipeline) and single chat requests,
all submitted together; one LLM worker, one control worker, on whatever cores the machine has. The
servers, Redis and the client share those cores.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from tests.benchmarks.bench_cluster import BenchCluster, bench_cluster
from tests.benchmarks.load import ASK, chat_payload, watching_ends
from tests.benchmarks.rows import Row, measured

REPEATS = 3
QUESTIONS = 150
CHATS = 1000
BAR_PER_SECOND = 100.0
DEADLINE_SECONDS = 300.0
SHAPE = (
    ("schema_linking", "link", ()),
    ("candidate_generation", "candidate", (0,)),
    ("candidate_generation", "candidate", (0,)),
    ("candidate_generation", "candidate", (0,)),
    ("self_correction", "revise", (1,)),
    ("self_correction", "revise", (2,)),
    ("evaluation", "unit_tests", (3, 4, 5)),
    ("evaluation", "choose", (6,)),
)


def run() -> list[Row]:
    """Rows for multi-stage questions and for chat."""
    with bench_cluster(0.0) as cluster:
        requests_per_second(cluster, 20, trace_payload, len(SHAPE))
        staged = [
            requests_per_second(cluster, QUESTIONS, trace_payload, len(SHAPE))
            for _ in range(REPEATS)
        ]
        chats = [requests_per_second(cluster, CHATS, chat_payload, 1) for _ in range(REPEATS)]
    return [
        _row("e2e.throughput_staged_llm_requests_per_second", staged, BAR_PER_SECOND),
        _row("e2e.throughput_chat_llm_requests_per_second", chats, None),
    ]


def _row(name: str, values: list[float], bar: float | None) -> Row:
    return measured(name, values, "1/s", bar=bar, better="higher")


def requests_per_second(
    cluster: BenchCluster, count: int, payload: Callable[[], dict[str, Any]], requests: int
) -> float:
    """LLM requests per second from the first submission to the last result."""
    with watching_ends(cluster.redis) as ends:
        start = time.perf_counter()
        for _ in range(count):
            cluster.client.app.send_task(ASK, kwargs=payload(), task_id=str(uuid.uuid4()))
        if not ends.wait_for(count, DEADLINE_SECONDS) or len(ends.answered()) < count:
            raise RuntimeError(f"only {len(ends.answered())} of {count} were answered")
        return count * requests / (max(ends.at.values()) - start)


def trace_payload() -> dict[str, Any]:
    """One question of eight requests, 2,000 tokens of prompt and 64 of output each."""
    line = {
        "database": "bench",
        "requests": [
            {
                "id": number,
                "stage": stage,
                "step": step,
                "after": list(after),
                "input_tokens": 2000,
                "output_tokens": 64,
                "template_tokens": 600,
                "schema_tokens": 1200,
            }
            for number, (stage, step, after) in enumerate(SHAPE)
        ],
    }
    return {
        "question": "",
        "database": "",
        "workflow": "trace",
        "slo_seconds": 3600,
        "options": {"line": line},
    }
