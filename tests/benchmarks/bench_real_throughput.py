"""What the whole stack costs a real vLLM server: its throughput over that of direct calls.

The same prompts, with eight in flight: once through client, Redis, coordinator, router, queue and
LLM worker, once straight from eight threads; alternately, each time with an empty prefix cache.
"""

from __future__ import annotations

import statistics
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hexgen_celery.api import Client
from hexgen_celery.demo.build import data_directory
from hexgen_celery.llm import ChatRequest, LlmClient
from hexgen_celery.names import ASK
from hexgen_celery.workflows.synthetic import text_of_tokens
from hexgen_celery.workflows.trace import node_id
from tests.benchmarks.real_vllm import (
    MODEL,
    ServerLimits,
    beside_the_engine,
    forget_prefixes,
    stack_before,
    vllm_server,
)
from tests.benchmarks.rows import Row, measured

PROFILE = Path(str(data_directory() / "cpu-x1-smollm2-135m.toml"))
IN_FLIGHT = 8
REQUESTS = 40
INPUT_TOKENS = 256
OUTPUT_TOKENS = 32
REPEATS = 3
BAR = 97.0
PATIENCE_SECONDS = 240.0
_POLL_SECONDS = 1.0


def run() -> list[Row]:
    """One row: requests per second through the stack, per cent of direct ones; median of pairs."""
    limits = ServerLimits(sequences=IN_FLIGHT)
    with (
        beside_the_engine(),
        vllm_server(limits) as url,
        stack_before(url, PROFILE, IN_FLIGHT) as client,
        LlmClient(url) as direct,
    ):
        _through_the_stack(client, url, IN_FLIGHT)
        pairs = [_pair(client, direct, url, number) for number in range(REPEATS)]
    shares = [100 * stack / straight for stack, straight in pairs]
    row = measured(
        "real.throughput_percent_of_direct",
        shares,
        "%",
        bar=BAR,
        better="higher",
        requests_per_second={
            "stack": round(statistics.median(stack for stack, _ in pairs), 3),
            "direct": round(statistics.median(straight for _, straight in pairs), 3),
        },
        requests=REQUESTS,
        in_flight=IN_FLIGHT,
        input_tokens=INPUT_TOKENS,
        output_tokens=OUTPUT_TOKENS,
    )
    return [row]


def _pair(client: Client, direct: LlmClient, url: str, number: int) -> tuple[float, float]:
    """Requests per second of the stack and of direct calls; who goes first alternates."""
    if number % 2:
        straight = _directly(direct, url)
        return _through_the_stack(client, url, REQUESTS), straight
    stack = _through_the_stack(client, url, REQUESTS)
    return stack, _directly(direct, url)


def _directly(direct: LlmClient, url: str) -> float:
    forget_prefixes(url)
    prompts = [_prompt(str(uuid.uuid4())) for _ in range(REQUESTS)]
    start = time.perf_counter()
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        list(threads.map(lambda prompt: direct.complete(_request(prompt)), prompts))
    return REQUESTS / (time.perf_counter() - start)


def _request(prompt: str) -> ChatRequest:
    return ChatRequest(
        MODEL,
        (("user", prompt),),
        max_tokens=OUTPUT_TOKENS,
        forced_output_tokens=OUTPUT_TOKENS,
    )


def _prompt(workflow_id: str) -> str:
    """What the trace workflow makes of its one request."""
    return text_of_tokens(f"{workflow_id}/{node_id(0)}", INPUT_TOKENS)


def _through_the_stack(client: Client, url: str, count: int) -> float:
    forget_prefixes(url)
    start = time.time()
    ids = {_ask(client) for _ in range(count)}
    while time.time() < start + PATIENCE_SECONDS:
        time.sleep(_POLL_SECONDS)
        found = client.history.answered(since=start - 1.0).records
        ends = [one.finished_at or 0.0 for one in found if one.submission.workflow_id in ids]
        if len(ends) == count:
            return count / (max(ends) - start)
    raise RuntimeError(f"{count - len(ends)} of {count} requests were not answered")


def _ask(client: Client) -> str:
    request = {
        "id": 0,
        "stage": "candidate_generation",
        "step": "candidate",
        "after": [],
        "input_tokens": INPUT_TOKENS,
        "output_tokens": OUTPUT_TOKENS,
    }
    payload: dict[str, Any] = {
        "workflow": "trace",
        "question": "",
        "database": "",
        "slo_seconds": 3600,
        "options": {"line": {"database": "bench", "requests": [request]}},
    }
    return str(client.app.send_task(ASK, kwargs=payload, task_id=str(uuid.uuid4())).id)
