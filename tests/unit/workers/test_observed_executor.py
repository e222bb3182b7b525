"""What an observer hears of the requests that a worker runs, and what metrics make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hexgen_celery.coordination.timers import TickReport
from hexgen_celery.core.estimates import Estimate
from hexgen_celery.errors import ModelUnavailable, RequestCancelled
from hexgen_celery.llm import CancelToken
from hexgen_celery.metrics import ProcessMetrics
from hexgen_celery.references import ClaimedRequest, RequestRef
from hexgen_celery.workflows.definition import LlmCall, NodeKind, NodeSpec, Submission
from workers.cancellation import SHUTDOWN
from workers.observed import ObservedExecutor
from workers.requests import Done, Place
from workers.upkeep import on_prediction

POOL = "gpu.a100.x"
NOW = 1_000.0
SPEC = NodeSpec("c-1", NodeKind.LLM, "candidate_generation", "candidate", LlmCall((), "q", 1, 1, 1))
SUBMISSION = Submission("w", "chat", "q", "", 60.0, 990.0, 1050.0)
RESULT = {
    "first_token_seconds": 0.2,
    "input_tokens": 100,
    "output_tokens": 20,
    "cached_tokens": None,
}


def _request(attempt: int = 1, latest_start: float | None = NOW - 3) -> ClaimedRequest:
    return ClaimedRequest(RequestRef("w", "c-1", attempt), SPEC, SUBMISSION, latest_start, 1.5)


class _Executor:
    def __init__(self, act: Callable[[], Done]) -> None:
        self._act = act

    def execute(self, request: ClaimedRequest, cancel: CancelToken) -> Done:
        return self._act()


def _metrics(**options: Any) -> ProcessMetrics:
    return ProcessMetrics("llm", "llm-a1@h", now=lambda: NOW, **options)


def _run(
    metrics: ProcessMetrics,
    act: Callable[[], Done],
    request: ClaimedRequest | None = None,
    cancel: CancelToken | None = None,
) -> Done:
    clock = iter((10.0, 12.5))
    place = Place("llm-a1@h", "a1", POOL)
    executor = ObservedExecutor(_Executor(act), metrics, place, lambda: next(clock))
    return executor.execute(request or _request(), cancel or CancelToken())


def _value(metrics: ProcessMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def _raising(error: Exception) -> Callable[[], Done]:
    def act() -> Done:
        raise error

    return act


def test_a_request_that_is_done() -> None:
    metrics = _metrics()
    assert _run(metrics, lambda: Done(RESULT)).result is RESULT
    stage = {"stage": "candidate_generation"}
    ended = {**stage, "pool": POOL, "verdict": "done"}
    assert _value(metrics, "hexgen_requests_total", **ended) == 1
    at = {**stage, "llm_instance": "a1"}
    assert _value(metrics, "hexgen_request_seconds_sum", **at) == 2.5
    assert _value(metrics, "hexgen_request_first_token_seconds_sum", **at) == 0.2
    assert _value(metrics, "hexgen_request_wait_seconds_sum", **stage, pool=POOL) == 1.5
    assert _value(metrics, "hexgen_request_laxity_seconds_bucket", pool=POOL, le="-2.0") == 1
    assert _value(metrics, "hexgen_request_laxity_seconds_bucket", pool=POOL, le="-5.0") == 0
    assert _value(metrics, "hexgen_tokens_total", llm_instance="a1", kind="input") == 100
    assert _value(metrics, "hexgen_tokens_total", llm_instance="a1", kind="cached") == 0
    assert _value(metrics, "hexgen_request_retries_total", **stage) is None


def test_a_later_attempt_is_a_retry() -> None:
    metrics = _metrics()
    _run(metrics, lambda: Done(RESULT), _request(attempt=3))
    assert _value(metrics, "hexgen_request_retries_total", stage="candidate_generation") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [(ModelUnavailable("away"), "model_unavailable"), (ValueError("odd"), "unexpected")],
)
def test_a_request_that_fails(error: Exception, code: str) -> None:
    metrics = _metrics()
    with pytest.raises(type(error)):
        _run(metrics, _raising(error))
    stage = {"stage": "candidate_generation"}
    assert _value(metrics, "hexgen_request_errors_total", **stage, code=code) == 1
    ended = {**stage, "pool": POOL, "verdict": "failed"}
    assert _value(metrics, "hexgen_requests_total", **ended) == 1


@pytest.mark.parametrize(
    ("reason", "verdict"), [(SHUTDOWN, "handed_back"), ("cancelled", "cancelled")]
)
def test_a_request_that_is_stopped(reason: str, verdict: str) -> None:
    metrics, cancel = _metrics(), CancelToken()
    cancel.set(reason)
    with pytest.raises(RequestCancelled):
        _run(metrics, _raising(RequestCancelled("stopped")), cancel=cancel)
    ended = {"stage": "candidate_generation", "pool": POOL, "verdict": verdict}
    assert _value(metrics, "hexgen_requests_total", **ended) == 1


def test_statements_are_counted_by_verdict() -> None:
    metrics = _metrics()
    _run(metrics, lambda: Done({"status": "timeout"}))
    assert _value(metrics, "hexgen_sql_statements_total", verdict="timeout") == 1


@pytest.mark.parametrize(("known", "latest_start"), [(False, NOW - 3), (True, None)])
def test_laxity_is_left_out_where_the_rank_does_not_tell_it(
    known: bool, latest_start: float | None
) -> None:
    metrics = _metrics(laxity_known=known)
    _run(metrics, lambda: Done(RESULT), _request(latest_start=latest_start))
    assert _value(metrics, "hexgen_request_laxity_seconds_count", pool=POOL) is None


def test_what_control_workers_see() -> None:
    metrics = _metrics()
    metrics.refused("tenant_full")
    metrics.ticked(TickReport())
    assert _value(metrics, "hexgen_timer_actions_total", action="resent") is None
    metrics.ticked(TickReport(expired=1, lost=2, resent=3, delivered=0))
    assert _value(metrics, "hexgen_submissions_refused_total", code="tenant_full") == 1
    for action, count in {"expired": 1, "lease_lost": 2, "resent": 3, "delivered": 0}.items():
        assert _value(metrics, "hexgen_timer_actions_total", action=action) == count
    metrics.recorded(7)
    assert _value(metrics, "hexgen_recorder_rows_total") == 7


def test_predictions_are_judged_by_ratio_and_interval() -> None:
    metrics = _metrics()
    tell = on_prediction(metrics)
    tell("output tokens", Estimate(120.0, 50.0, 150.0), 100.0)
    tell("output tokens", Estimate(20.0, 10.0, 30.0), 100.0)
    about = {"about": "output tokens"}
    assert _value(metrics, "hexgen_prediction_ratio_sum", **about) == pytest.approx(1.4)
    assert _value(metrics, "hexgen_predictions_total", **about, inside="true") == 1
    assert _value(metrics, "hexgen_predictions_total", **about, inside="false") == 1
