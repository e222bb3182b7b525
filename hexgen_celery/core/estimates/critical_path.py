"""Longest paths through a DAG of requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PathNode:
    """One request of a workflow: `after` names its prerequisites, `seconds` is its own time."""

    node_id: str
    stage: str
    step: str
    after: tuple[str, ...]
    seconds: float


def in_order(nodes: Iterable[PathNode]) -> list[PathNode]:
    """The nodes, each behind all its prerequisites.

    Raises:
        ValueError: if they form a cycle or name a prerequisite that is not among them.
    """
    pending = {node.node_id: node for node in nodes}
    done: dict[str, PathNode] = {}
    while pending:
        free = [node for node in pending.values() if all(name in done for name in node.after)]
        if not free:
            raise ValueError(f"cyclic or missing prerequisites among: {', '.join(pending)}")
        for node in free:
            done[node.node_id] = pending.pop(node.node_id)
    return list(done.values())


def tails(ordered: Sequence[PathNode]) -> dict[str, float]:
    """Per node of a topological order, the seconds from its end to the end of the workflow."""
    tail = {node.node_id: 0.0 for node in ordered}
    for node in reversed(ordered):
        for name in node.after:
            tail[name] = max(tail[name], node.seconds + tail[node.node_id])
    return tail


def critical_path(nodes: Iterable[PathNode]) -> float:
    """Seconds of the longest path."""
    ordered = in_order(nodes)
    tail = tails(ordered)
    return max((node.seconds + tail[node.node_id] for node in ordered), default=0.0)


def rounds(ordered: Sequence[PathNode]) -> dict[str, int]:
    """Per node of a topological order, how many rounds of its own step precede it.

    Parallel requests of one step are in the same round; sequential ones count up.
    """
    count: dict[str, dict[str, int]] = {}
    for node in ordered:
        seen: dict[str, int] = {}
        for name in node.after:
            for step, number in count[name].items():
                seen[step] = max(seen.get(step, 0), number)
        count[node.node_id] = {**seen, node.step: seen.get(node.step, 0) + 1}
    return {node.node_id: count[node.node_id][node.step] - 1 for node in ordered}
