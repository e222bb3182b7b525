"""Where the time of a question went, on the real server and in the simulator, in the same terms."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from hexgen_celery.coordination.state import StoredNode, WorkflowRecord
from hexgen_celery.core.profiles import Profile
from hexgen_celery.simulator import SimulationResult
from hexgen_celery.simulator.observation import RequestRecord

SHARES = ("stack", "waiting", "prefix cache", "prefill", "batching", "decode")
# A request is ready in the instant in which the last one before it is settled.
_SAME_MOMENT = 1e-3


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """One request. Moments in seconds since the first arrival, sizes in tokens.

    `ready` is when its prerequisites were complete, `sent` when the server was asked, `ended` when
    the server had answered, `settled` when whoever waits for it could know.
    """

    ready: float
    claimed: float
    sent: float
    first_token: float
    ended: float
    settled: float
    input_tokens: int
    output_tokens: int
    cached_tokens: int

    @property
    def uncached(self) -> int:
        """Prompt tokens that had to be computed."""
        return self.input_tokens - self.cached_tokens


@dataclass(frozen=True, slots=True)
class QuestionTimes:
    """One question: when it was asked and done, and its requests."""

    submitted: float
    finished: float
    requests: tuple[RequestTimes, ...]

    @property
    def latency(self) -> float:
        """Seconds from submission to the end."""
        return self.finished - self.submitted

    def path(self) -> list[RequestTimes]:
        """The requests that decided the latency, the last one first.

        It is followed backwards: the request that ended last, then the one that ended last before
        that was ready, and so on.
        """
        path: list[RequestTimes] = []
        until = self.finished
        while earlier := [one for one in self.requests if one.settled <= until + _SAME_MOMENT]:
            path.append(max(earlier, key=lambda one: one.settled))
            until = path[-1].ready
        return path


class Anatomist:
    """Splits latencies into shares, by what `profile` says a thing should cost.

    Along the path that decided a question's latency: `waiting` is time in our queue; `prefix cache`
    what the prompt tokens that no cache knew should cost, `prefill` the rest until the first token;
    `batching` what others' prompts and sequences should add while it decoded, `decode` the rest
    until the last token; `stack` is everything between. The shares add up to the latency.
    """

    def __init__(self, questions: Sequence[QuestionTimes], profile: Profile) -> None:
        self._questions = questions
        self._profile = profile
        self._requests = sorted(
            (one for question in questions for one in question.requests),
            key=lambda one: one.first_token,
        )
        self._first_tokens = [one.first_token for one in self._requests]

    def mean_shares(self) -> dict[str, float]:
        """The mean latency's shares, in seconds."""
        each = [self._shares(question) for question in self._questions]
        return {name: statistics.fmean(shares[name] for shares in each) for name in SHARES}

    def _shares(self, question: QuestionTimes) -> dict[str, float]:
        shares = dict.fromkeys(SHARES, 0.0)
        until = question.finished
        for request in question.path():
            shares["stack"] += until - request.ended + request.sent - request.claimed
            shares["waiting"] += request.claimed - request.ready
            computed = self._uncached_seconds(request)
            shares["prefix cache"] += computed
            shares["prefill"] += request.first_token - request.sent - computed
            others = self._interference(request)
            shares["batching"] += others
            shares["decode"] += request.ended - request.first_token - others
            until = request.ready
        shares["stack"] += until - question.submitted
        return shares

    def _uncached_seconds(self, request: RequestTimes) -> float:
        return self._profile.prefill_seconds(request.uncached, request.cached_tokens)

    def _interference(self, request: RequestTimes) -> float:
        """Seconds that others' work should add to the decoding of `request`."""
        begin = bisect_right(self._first_tokens, request.first_token)
        end = bisect_right(self._first_tokens, request.ended)
        prompts = sum(self._uncached_seconds(one) for one in self._requests[begin:end])
        return prompts + self._profile.decode_per_sequence * self._company(request)

    def _company(self, request: RequestTimes) -> float:
        """Steps that other sequences shared with it, counted once per sequence."""
        length = request.ended - request.first_token
        if length <= 0:
            return 0.0
        shared = sum(
            max(0.0, min(one.ended, request.ended) - max(one.first_token, request.first_token))
            for one in self._requests
            if one is not request
        )
        return shared / length * (request.output_tokens - 1)


def real_question(record: WorkflowRecord, origin: float) -> QuestionTimes:
    """The times of an answered question of the live system; `origin` in Unix seconds."""
    nodes = [_real_request(node, origin) for node in record.nodes.values()]
    submitted = record.submission.submitted_at - origin
    return QuestionTimes(submitted, (record.finished_at or 0.0) - origin, tuple(nodes))


def _real_request(node: StoredNode, origin: float) -> RequestTimes:
    told = node.record
    result = node.outcome.get("result") or {}
    claimed, settled = float(told["claimed_at"]) - origin, float(told["finished_at"]) - origin
    seconds, first = float(result["seconds"]), float(result["first_token_seconds"])
    # The two clocks agree on the first token, which the worker reports as soon as it sees it.
    seen = float(told["first_token_at"]) - origin
    sent = min(max(claimed, seen - first), settled - seconds)
    return RequestTimes(
        ready=float(told["ready_at"]) - origin,
        claimed=claimed,
        sent=sent,
        first_token=sent + first,
        ended=sent + seconds,
        settled=settled,
        input_tokens=int(result["input_tokens"]),
        output_tokens=int(result["output_tokens"]),
        cached_tokens=int(result["cached_tokens"]),
    )


def simulated_questions(result: SimulationResult) -> list[QuestionTimes]:
    """The same of a simulation, in which the stack takes no time."""
    requests: dict[str, list[RequestTimes]] = {}
    for record in result.requests:
        requests.setdefault(record.workflow_id, []).append(_simulated_request(record))
    return [
        QuestionTimes(question.submitted, question.finished, tuple(requests[str(question.number)]))
        for question in result.questions
    ]


def _simulated_request(record: RequestRecord) -> RequestTimes:
    return RequestTimes(
        ready=record.ready,
        claimed=record.claimed,
        sent=record.claimed,
        first_token=record.first_token,
        ended=record.finished,
        settled=record.finished,
        input_tokens=record.input_tokens,
        output_tokens=record.output_tokens,
        cached_tokens=record.cached_tokens,
    )


def share_errors(real: Anatomist, simulated: Anatomist) -> dict[str, float]:
    """Per cent of the real mean latency by which each share is predicted too long (+) or short."""
    seen, expected = real.mean_shares(), simulated.mean_shares()
    whole = sum(seen.values())
    return {name: 100 * (expected[name] - seen[name]) / whole for name in SHARES}
