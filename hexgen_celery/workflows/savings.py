"""What an early decision saves: the requests that were cancelled, and their tokens."""

from __future__ import annotations

from dataclasses import dataclass

from hexgen_celery.workflows.candidate_branches import Nodes, is_final, request_id
from hexgen_celery.workflows.definition import Json, LlmCall, NodeState, NodeStatus


@dataclass(frozen=True, slots=True)
class Saved:
    """`requests` to a model and `executions` that were cancelled, `begun` of the requests while
    they ran. `unasked`: candidates that were never asked for. `tokens`: input and expected output
    of the requests that had not begun, those of the unasked candidates as of the first one's."""

    requests: int = 0
    executions: int = 0
    begun: int = 0
    unasked: int = 0
    tokens: int = 0

    def to_json(self) -> Json:
        """The counts as plain values."""
        return {
            "requests": self.requests,
            "executions": self.executions,
            "begun": self.begun,
            "unasked": self.unasked,
            "tokens": self.tokens,
        }


def unfinished(nodes: Nodes) -> tuple[str, ...]:
    """The nodes that an early decision makes needless."""
    return tuple(name for name, node in nodes.items() if not is_final(node))


def saved_by_dropping(nodes: Nodes, names: tuple[str, ...], unasked: int = 0) -> Saved:
    """What is saved when `names` are cancelled now and `unasked` candidates not asked for."""
    first = nodes.get(request_id(1, 0))
    dropped = [nodes[name] for name in names]
    requests = [node for node in dropped if isinstance(node.spec.call, LlmCall)]
    waiting = [node for node in requests if node.status is not NodeStatus.RUNNING]
    return Saved(
        requests=len(requests),
        executions=len(dropped) - len(requests),
        begun=len(requests) - len(waiting),
        unasked=unasked,
        tokens=sum(map(_tokens, waiting)) + (unasked * _tokens(first) if first else 0),
    )


def _tokens(node: NodeState) -> int:
    call = node.spec.call
    return call.input_tokens + round(call.output_tokens) if isinstance(call, LlmCall) else 0
