"""The body of every stage task, over a coordinator and an executor that are told what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from hexgen_celery.errors import ModelRefused, ModelUnavailable, RequestCancelled
from hexgen_celery.llm import CancelToken
from hexgen_celery.references import ClaimedRequest, RequestRef
from hexgen_celery.workflows.definition import Json, LlmCall, NodeKind, NodeSpec, Submission
from workers.cancellation import SHUTDOWN, SILENT_SERVER, InFlight
from workers.requests import AttemptFailed, Done, Place, RequestRunner

REF = RequestRef("w", "link", 2)
REQUEST = ClaimedRequest(
    REF,
    NodeSpec("link", NodeKind.LLM, "schema_linking", "link", LlmCall((), "q", 1, 1, 1)),
    Submission("w", "chat", "q", "", 60.0, 0.0, 60.0),
)


class _Transitions:
    """Records transitions. Raises what `trouble` holds, one per call, before doing anything."""

    def __init__(self, request: ClaimedRequest | None = REQUEST) -> None:
        self.request = request
        self.calls: list[tuple[Any, ...]] = []
        self.trouble: list[Exception] = []

    def claim(
        self, ref: RequestRef, *, worker: str, instance: str = "", queue: str = ""
    ) -> ClaimedRequest | None:
        self._raise()
        self.calls.append(("claim", ref, worker, instance, queue))
        return self.request

    def complete(self, ref: RequestRef, result: Json, bulk: Json | None = None) -> None:
        self._raise()
        self.calls.append(("complete", ref, result, bulk))

    def fail(self, ref: RequestRef, error: Json, *, retryable: bool) -> None:
        self.calls.append(("fail", ref, error["code"], retryable))

    def hand_back(self, ref: RequestRef, error: Json) -> None:
        self.calls.append(("hand_back", ref, error["code"]))

    def _raise(self) -> None:
        if self.trouble:
            raise self.trouble.pop()


class _Executor:
    def __init__(self, act: Callable[[CancelToken], Done]) -> None:
        self.act = act

    def execute(self, request: ClaimedRequest, cancel: CancelToken) -> Done:
        return self.act(cancel)


class _Seeing:
    """Notes the rank of what it is to run."""

    def __init__(self, seen: list[float | None]) -> None:
        self.seen = seen

    def execute(self, request: ClaimedRequest, cancel: CancelToken) -> Done:
        self.seen.append(request.latest_start)
        return Done({})


def _runner(
    transitions: _Transitions,
    act: Callable[[CancelToken], Done],
    in_flight: InFlight | None = None,
) -> RequestRunner:
    return RequestRunner(
        transitions,
        _Executor(act),
        in_flight or InFlight(),
        Place("worker@host", "a100-1", "gpu.a100.x"),
        patience_seconds=2.0,
    )


def _raising(error: Exception) -> Callable[[CancelToken], Done]:
    def act(_cancel: CancelToken) -> Done:
        raise error

    return act


def test_a_request_is_claimed_run_and_completed() -> None:
    transitions = _Transitions()
    runner = _runner(transitions, lambda _: Done({"text": "x"}, {"rows": [[1]]}))
    assert runner.run("w", "link", 2) == "done"
    assert transitions.calls == [
        ("claim", REF, "worker@host", "a100-1", "gpu.a100.x"),
        ("complete", REF, {"text": "x"}, {"rows": [[1]]}),
    ]


def test_the_rank_of_the_message_goes_with_the_request() -> None:
    seen: list[float | None] = []
    runner = RequestRunner(
        _Transitions(),
        _Seeing(seen),
        InFlight(),
        Place("worker@host"),
        patience_seconds=2.0,
    )
    assert runner.run("w", "link", 2, "gpu.a100.x", 1234.5) == "done"
    assert runner.run("w", "link", 2) == "done"
    assert seen == [1234.5, None]


def test_a_stale_delivery_is_only_acknowledged() -> None:
    transitions = _Transitions(request=None)
    assert _runner(transitions, _raising(AssertionError())).run("w", "link", 2) == "stale"
    assert len(transitions.calls) == 1


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (ModelUnavailable("down"), "model_unavailable", True),
        (ModelRefused("no"), "model_refused", False),
        (ZeroDivisionError("oops"), "error", True),
    ],
)
def test_a_failure_is_recorded_and_shown_to_celery(
    error: Exception, code: str, retryable: bool
) -> None:
    transitions = _Transitions()
    with pytest.raises(AttemptFailed):
        _runner(transitions, _raising(error)).run("w", "link", 2)
    assert transitions.calls[1:] == [("fail", REF, code, retryable)]


def test_a_cancelled_request_changes_nothing_more() -> None:
    transitions = _Transitions()
    in_flight = InFlight()

    def act(cancel: CancelToken) -> Done:
        in_flight.cancel("w")
        assert cancel.is_set
        raise RequestCancelled("stopped")

    assert _runner(transitions, act, in_flight).run("w", "link", 2) == "cancelled"
    assert [call[0] for call in transitions.calls] == ["claim"]


def test_a_request_stopped_by_a_shutdown_is_handed_back() -> None:
    transitions = _Transitions()
    in_flight = InFlight()

    def act(_cancel: CancelToken) -> Done:
        in_flight.cancel_all(SHUTDOWN)
        raise RequestCancelled("stopped")

    assert _runner(transitions, act, in_flight).run("w", "link", 2) == "handed back"
    assert transitions.calls[1:] == [("hand_back", REF, "cancelled")]


def test_a_request_whose_server_is_silent_fails_and_is_tried_again_elsewhere() -> None:
    transitions = _Transitions()
    in_flight = InFlight()

    def act(_cancel: CancelToken) -> Done:
        in_flight.cancel_all(SILENT_SERVER)
        raise RequestCancelled("stopped")

    with pytest.raises(AttemptFailed, match="answers nothing any more"):
        _runner(transitions, act, in_flight).run("w", "link", 2)
    assert transitions.calls[1:] == [("fail", REF, "model_unavailable", True)]


def test_a_cancel_between_delivery_and_claim_is_not_lost() -> None:
    in_flight = InFlight()

    class _CancelledMeanwhile(_Transitions):
        def claim(self, *args: Any, **kwargs: Any) -> ClaimedRequest | None:
            in_flight.cancel("w")
            return super().claim(*args, **kwargs)

    seen: list[bool] = []

    def act(cancel: CancelToken) -> Done:
        seen.append(cancel.is_set)
        raise RequestCancelled("stopped")

    _runner(_CancelledMeanwhile(), act, in_flight).run("w", "link", 2)
    assert seen == [True]


def test_a_short_outage_of_redis_is_sat_out() -> None:
    transitions = _Transitions()
    transitions.trouble = [redis.ConnectionError("gone"), redis.TimeoutError("slow")]
    assert _runner(transitions, lambda _: Done({})).run("w", "link", 2) == "done"


@pytest.mark.parametrize(
    "refusal",
    [
        redis.exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
        redis.ReadOnlyError("You can't write against a read only replica."),
        redis.ResponseError("Error running script: @user_script: 9: -OOM command not allowed"),
        redis.ResponseError("MISCONF Errors writing to the AOF file: No space left on device"),
    ],
)
def test_a_redis_that_takes_no_writes_for_a_moment_is_sat_out(refusal: redis.RedisError) -> None:
    """What a server has generated for seconds is worth more than one try to say so."""
    transitions = _Transitions()
    transitions.trouble = [refusal, refusal]
    assert _runner(transitions, lambda _: Done({})).run("w", "link", 2) == "done"


def test_what_redis_will_never_take_is_not_tried_again() -> None:
    transitions = _Transitions()
    transitions.trouble = [redis.ResponseError("WRONGTYPE Operation against a key")]
    assert _runner(transitions, lambda _: Done({})).run("w", "link", 2) == "lost"
    assert transitions.trouble == []


def test_a_long_outage_leaves_the_request_to_the_sweep() -> None:
    transitions = _Transitions()
    transitions.trouble = [redis.ConnectionError("gone")] * 1000
    runner = RequestRunner(
        transitions,
        _Executor(lambda _: Done({})),
        InFlight(),
        Place("w@h"),
        patience_seconds=0.1,
    )
    assert runner.run("w", "link", 2) == "lost"
    assert transitions.calls == []
