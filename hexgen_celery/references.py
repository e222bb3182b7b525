"""Names of attempts, and the form a claimed one has for the worker that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from hexgen_celery.workflows.definition import NodeSpec, Submission


@dataclass(frozen=True, slots=True)
class RequestRef:
    """One attempt at one node of one workflow."""

    workflow_id: str
    node_id: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.workflow_id}/{self.node_id}/{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The attempt that `text` names.

        Raises:
            ValueError: it is not `<workflow>/<node>/<attempt>`.
        """
        workflow_id, node_id, attempt = text.split("/")
        return cls(workflow_id, node_id, int(attempt))


@dataclass(frozen=True, slots=True)
class ClaimedRequest:
    """A request that its worker alone may run now, until its lease ends.

    `latest_start` is the rank by which its message was queued, as it was when it was taken (Unix
    seconds by the latest-start orders, lower first); None where the message did not say.
    `waited_seconds` is the time from its prerequisites being complete to this claim.
    `deadline` is the question's, in Unix seconds.
    """

    ref: RequestRef
    spec: NodeSpec
    submission: Submission
    latest_start: float | None = None
    waited_seconds: float | None = None

    @property
    def deadline(self) -> float:
        """When the question expires, in Unix seconds."""
        return self.submission.deadline
