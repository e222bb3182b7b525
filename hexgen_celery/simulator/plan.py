"""The DAG of a workload line, prepared for many runs over it."""

from __future__ import annotations

from dataclasses import dataclass

from hexgen_celery.core.estimates import PathNode, rounds
from hexgen_celery.workloads import WorkloadQuestion, WorkloadRequest

# Stage, step, class and tenant of requests that belong to no question.
CHAT = "chat"


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRequest:
    """A request with its place in the DAG; equal only to itself.

    `successors` are positions in the plan, `prerequisites` counts what must end before it, `round`
    how many of its own step came before. Policies never see the successors.
    """

    request: WorkloadRequest
    successors: tuple[int, ...]
    prerequisites: int
    round: int


@dataclass(frozen=True, slots=True)
class QuestionPlan:
    """All requests of a line, prerequisites first. `database` is the recorded one, which estimates
    are learnt by; in a run, copies of it are asked."""

    database: str
    nodes: tuple[PlannedRequest, ...]

    @classmethod
    def of(cls, line: WorkloadQuestion) -> QuestionPlan:
        """Prepare a workload line."""
        position = {request.id: index for index, request in enumerate(line.requests)}
        successors: list[list[int]] = [[] for _ in line.requests]
        for index, request in enumerate(line.requests):
            for name in request.after:
                successors[position[name]].append(index)
        number = rounds([_path_node(request) for request in line.requests])
        return cls(
            line.database,
            tuple(
                PlannedRequest(
                    request, tuple(following), len(request.after), number[str(request.id)]
                )
                for request, following in zip(line.requests, successors, strict=True)
            ),
        )


def _path_node(request: WorkloadRequest) -> PathNode:
    after = tuple(str(name) for name in request.after)
    return PathNode(str(request.id), request.stage, request.step, after, 0.0)
