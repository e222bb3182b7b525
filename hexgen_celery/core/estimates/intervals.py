"""A workflow as it really ran: what came before what, told from times.

Definitions reveal requests one after another and name no edges, so that a request is taken to
follow every request that had ended before it became ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hexgen_celery.core.estimates.critical_path import PathNode


@dataclass(frozen=True, slots=True)
class Interval:
    """One request that is done. Times in Unix seconds; `seconds` is what it took by itself."""

    node_id: str
    stage: str
    step: str
    ready_at: float
    finished_at: float
    seconds: float


def path_nodes(intervals: Sequence[Interval]) -> list[PathNode]:
    """The requests with their prerequisites."""
    return [
        PathNode(
            node_id=one.node_id,
            stage=one.stage,
            step=one.step,
            after=tuple(
                other.node_id
                for other in intervals
                if other.finished_at <= one.ready_at and other.ready_at < one.ready_at
            ),
            seconds=one.seconds,
        )
        for one in intervals
    ]


def rounds_over(step: str, intervals: Iterable[Interval]) -> int:
    """How many rounds of `step` are over: the longest chain of its requests.

    Picking always the one that ends first (interval scheduling) gives the longest chain.
    """
    count, end = 0, float("-inf")
    own = (each for each in intervals if each.step == step)
    for interval in sorted(own, key=lambda each: each.finished_at):
        if interval.ready_at >= end:
            count, end = count + 1, interval.finished_at
    return count


def stage_seconds(intervals: Sequence[Interval]) -> dict[str, float]:
    """Per stage, in their order of beginning: seconds from its first request to its last end."""
    ordered = sorted(intervals, key=lambda each: each.ready_at)
    begin = {each.stage: each.ready_at for each in reversed(ordered)}
    end: dict[str, float] = {}
    for each in ordered:
        end[each.stage] = max(end.get(each.stage, each.finished_at), each.finished_at)
    return {stage: end[stage] - begin[stage] for stage in end}
