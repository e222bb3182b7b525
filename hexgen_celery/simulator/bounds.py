"""What no policy can beat: the critical path alone, and the conservation of work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hexgen_celery.core.estimates import PathNode, critical_path
from hexgen_celery.core.fleet import Fleet
from hexgen_celery.core.prefix import prefix_tokens
from hexgen_celery.core.profiles import Profile
from hexgen_celery.workloads import WorkloadQuestion, WorkloadRequest


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds of latency over the measured questions (seconds), upper bound of throughput
    (questions per second)."""

    latency_p50: float
    latency_p95: float
    throughput: float


def fastest_seconds(line: WorkloadQuestion, fleet: Fleet) -> float:
    """The question's critical path, each request alone on its fastest instance, prefix cached."""
    profiles = {instance.profile for instance in fleet.instances}
    return critical_path(
        PathNode(
            node_id=str(request.id),
            stage=request.stage,
            step=request.step,
            after=tuple(str(name) for name in request.after),
            seconds=min(request_seconds(request, profile) for profile in profiles),
        )
        for request in line.requests
    )


def request_seconds(request: WorkloadRequest, profile: Profile) -> float:
    """One request alone, its whole shared beginning cached: a prefill step, then decode steps."""
    cached = min(prefix_tokens(request.prefix("")), request.input_tokens - 1)
    prefill = profile.prefill_seconds(request.input_tokens - cached, cached)
    steps = request.output_tokens - 1
    context = request.input_tokens + (steps + 1) / 2
    decode = steps * profile.decode_step_seconds(1, context)
    return max(prefill, profile.decode_base) + decode


def conserved_throughput(lines: Sequence[WorkloadQuestion], fleet: Fleet) -> float:
    """Questions per second if every instance worked without pause at its best efficiency.

    Best is: the shared beginnings always cached and held once, and the weights read as seldom as
    possible. Sequences need KV for what they do not share, so the steps of a run number at least
    the sum over generated tokens of that private context, divided by the KV memory.
    """
    times_drawn = Counter(lines)
    return sum(1.0 / _mean_work(times_drawn, instance.profile) for instance in fleet.instances)


def _mean_work(times_drawn: Mapping[WorkloadQuestion, int], profile: Profile) -> float:
    weighed = [(r, times) for line, times in times_drawn.items() for r in line.requests]
    tokens = sum(times * request.output_tokens for request, times in weighed)
    private = sum(times * r.output_tokens * _mean_private_context(r) for r, times in weighed)
    batch = max(1.0, min(profile.max_sequences, profile.kv_tokens * tokens / private))
    shared = replace(profile, decode_base=profile.decode_base / batch)
    work = sum(times * _work(request, shared) for request, times in weighed)
    return work / sum(times_drawn.values())


def _mean_private_context(request: WorkloadRequest) -> float:
    """Tokens of KV that a request holds for itself alone, on average over its decode."""
    own = request.input_tokens - prefix_tokens(request.prefix(""))
    return own + request.output_tokens / 2


def _work(request: WorkloadRequest, profile: Profile) -> float:
    cached = min(prefix_tokens(request.prefix("")), request.input_tokens - 1)
    prefill = profile.prefill_seconds(request.input_tokens - cached, cached)
    steps = request.output_tokens - 1
    return prefill + steps * profile.decode_step_seconds(1, request.input_tokens + (steps + 1) / 2)
