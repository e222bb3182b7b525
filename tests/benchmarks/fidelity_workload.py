"""The trace workload, made small enough for a small model on a CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hexgen_celery.core.fleet import Fleet
from hexgen_celery.simulator import Choice, Policies, SimulationConfig, SimulationResult, run
from hexgen_celery.simulator.config import RECORDED
from hexgen_celery.workloads import Workload, WorkloadQuestion, WorkloadRequest
from tests.benchmarks.agreement import SLO_SECONDS, drawn_workload

_BISECTIONS = 10


@dataclass(frozen=True, slots=True)
class Scale:
    """What a recorded length is multiplied by.

    They bring the longest recorded prompt (12,286 tokens) and its answer well into a context of
    4,096 tokens, and a run within minutes at the speed of a CPU.
    """

    inputs: float = 0.125
    outputs: float = 0.0625

    def question(self, line: WorkloadQuestion) -> WorkloadQuestion:
        """The line with every length scaled; no prompt and no answer becomes empty."""
        return replace(line, requests=tuple(map(self._request, line.requests)))

    def _request(self, request: WorkloadRequest) -> WorkloadRequest:
        template = round(request.template_tokens * self.inputs)
        schema = round(request.schema_tokens * self.inputs)
        return replace(
            request,
            template_tokens=template,
            schema_tokens=schema,
            input_tokens=max(template + schema + 1, round(request.input_tokens * self.inputs)),
            output_tokens=max(1, round(request.output_tokens * self.outputs)),
        )


@dataclass(frozen=True, slots=True)
class Draw:
    """How many questions arrive, and over how many databases (Zipf) they are spread."""

    questions: int = 40
    databases: int = 3

    def workload(self, lines: Sequence[WorkloadQuestion], rate: float, seed: int) -> Workload:
        """Poisson arrivals at `rate` questions per second."""
        return drawn_workload(lines, self.questions, rate, self.databases, seed)


def as_the_server_sees(workload: Workload, chat_tokens: int) -> Workload:
    """The workload with the tokens that the model's chat template adds to each prompt.

    They are the same for all requests and stand (nearly all) in front, so they count as template.
    """
    return Workload(
        workload.name,
        tuple(
            replace(
                question,
                requests=tuple(
                    replace(
                        request,
                        input_tokens=request.input_tokens + chat_tokens,
                        template_tokens=request.template_tokens + chat_tokens,
                    )
                    for request in question.requests
                ),
            )
            for question in workload.questions
        ),
    )


def predict(workload: Workload, fleet: Fleet, policies: Policies) -> SimulationResult:
    """The simulator's run of exactly these arrivals."""
    return run(
        SimulationConfig(
            workload,
            fleet,
            rate=1.0,
            policies=policies,
            arrivals=Choice(RECORDED),
            slo_base_seconds=SLO_SECONDS,
            keep_requests=True,
        )
    )


def in_flight(result: SimulationResult) -> float:
    """Questions in the system, on average, between the first arrival and the last end."""
    first = min(question.submitted for question in result.questions)
    last = max(question.finished for question in result.questions)
    return sum(question.latency for question in result.questions) / (last - first)


def rate_for(
    wanted: float, lines: Sequence[WorkloadQuestion], draw: Draw, fleet: Fleet, seed: int
) -> float:
    """Questions per second at which the simulator expects `wanted` of them in flight."""
    low, high = 1e-3, 10.0
    for _ in range(_BISECTIONS):
        rate = math.sqrt(low * high)
        seen = in_flight(predict(draw.workload(lines, rate, seed), fleet, Policies()))
        low, high = (rate, high) if seen < wanted else (low, rate)
    return math.sqrt(low * high)
