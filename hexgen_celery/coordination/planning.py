"""From a definition's expansion to what exactly changes. Pure.

A node is ready when every node of its `after` is done. A workflow that has neither an outcome nor a
node that can still bring one is ended here, so that no definition can leave a question hanging.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hexgen_celery.errors import HexgenError
from hexgen_celery.workflows.definition import (
    Expansion,
    Failure,
    Json,
    NodeSpec,
    NodeState,
    NodeStatus,
    Outcome,
)

ACTIVE = frozenset({NodeStatus.READY, NodeStatus.QUEUED, NodeStatus.RUNNING})
FINAL = frozenset({NodeStatus.DONE, NodeStatus.FAILED, NodeStatus.DROPPED})


class InvalidExpansion(HexgenError):
    """Raised when a workflow definition answers with nodes that cannot exist."""

    code = "invalid_expansion"


@dataclass(frozen=True, slots=True)
class Plan:
    """What one transition changes besides the node that ended.

    `ready` are those of `added` that can start; `released` are waiting nodes that now can.
    """

    added: tuple[NodeSpec, ...] = ()
    ready: frozenset[str] = frozenset()
    released: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    outcome: Outcome | None = None
    memory: Json | None = None
    parts: Mapping[str, str] = field(default_factory=dict)


def make_plan(nodes: Mapping[str, NodeState], memory: Json, expansion: Expansion) -> Plan:
    """The plan of `expansion` over `nodes`, in which the node that just ended is final already.

    Raises:
        InvalidExpansion: it adds a node twice, or one that waits for or drops an unknown one.
    """
    _check(nodes, expansion)
    statuses = {node_id: node.status for node_id, node in nodes.items()}
    statuses.update((spec.id, NodeStatus.WAITING) for spec in expansion.add)
    dropped = tuple(name for name in expansion.drop if statuses[name] not in FINAL)
    statuses.update((name, NodeStatus.DROPPED) for name in dropped)
    specs = [*(node.spec for node in nodes.values()), *expansion.add]
    startable = frozenset(spec.id for spec in specs if _can_start(spec, statuses))
    statuses.update((name, NodeStatus.READY) for name in startable)
    return Plan(
        added=expansion.add,
        ready=startable - nodes.keys(),
        released=tuple(name for name in nodes if name in startable),
        dropped=dropped,
        outcome=expansion.outcome or _dead_end(statuses),
        memory={**memory, **expansion.memory} if expansion.memory else None,
        parts=expansion.parts,
    )


def _can_start(spec: NodeSpec, statuses: Mapping[str, NodeStatus]) -> bool:
    return statuses[spec.id] is NodeStatus.WAITING and all(
        statuses[name] is NodeStatus.DONE for name in spec.after
    )


def _dead_end(statuses: Mapping[str, NodeStatus]) -> Failure | None:
    if any(status in ACTIVE for status in statuses.values()):
        return None
    waiting = [name for name, status in statuses.items() if status is NodeStatus.WAITING]
    blocked = f"; still waiting: {', '.join(waiting)}" if waiting else ""
    return Failure(stage="", cause=f"nothing is left to run and there is no outcome{blocked}")


def _check(nodes: Mapping[str, NodeState], expansion: Expansion) -> None:
    known = set(nodes)
    for spec in expansion.add:
        if not spec.id or "/" in spec.id:
            raise InvalidExpansion(f"{spec.id!r} cannot be a node's id", field="add")
        if spec.id in known:
            raise InvalidExpansion(f"node {spec.id!r} is added twice", field="add")
        known.add(spec.id)
    _check_known(known, "drop", expansion.drop)
    for spec in expansion.add:
        _check_known(known, "after", spec.after)


def _check_known(known: set[str], field_name: str, names: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise InvalidExpansion(
                f"{field_name} names the unknown node {name!r}", field=field_name
            )
