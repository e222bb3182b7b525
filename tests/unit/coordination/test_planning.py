"""From expansions to plans, without any Redis."""

from __future__ import annotations

import pytest

from hexgen_celery.coordination.planning import InvalidExpansion, Plan, make_plan
from hexgen_celery.workflows.definition import (
    Answer,
    Expansion,
    Failure,
    Json,
    NodeKind,
    NodeSpec,
    NodeState,
    NodeStatus,
    SqlCall,
)

DONE, FAILED, RUNNING = NodeStatus.DONE, NodeStatus.FAILED, NodeStatus.RUNNING
WAITING, DROPPED = NodeStatus.WAITING, NodeStatus.DROPPED


def spec(node_id: str, *after: str) -> NodeSpec:
    return NodeSpec(node_id, NodeKind.SQL, "stage", "step", SqlCall("db", "SELECT 1"), after)


def nodes(**statuses: tuple[NodeStatus, tuple[str, ...]]) -> dict[str, NodeState]:
    return {
        name: NodeState(spec(name, *after), status) for name, (status, after) in statuses.items()
    }


def plan(existing: dict[str, NodeState], expansion: Expansion, memory: Json | None = None) -> Plan:
    return make_plan(existing, memory or {}, expansion)


def test_added_nodes_without_predecessors_are_ready() -> None:
    made = plan({}, Expansion(add=(spec("a"), spec("b", "a"))))
    assert made.ready == {"a"}
    assert made.outcome is None


def test_an_added_node_may_come_after_one_that_is_done() -> None:
    made = plan(nodes(a=(DONE, ())), Expansion(add=(spec("b", "a"),)))
    assert made.ready == {"b"}
    assert made.released == ()


def test_a_waiting_node_is_released_when_all_predecessors_are_done() -> None:
    existing = nodes(a=(DONE, ()), b=(DONE, ()), c=(WAITING, ("a", "b")))
    assert plan(existing, Expansion()).released == ("c",)
    existing = nodes(a=(DONE, ()), b=(RUNNING, ()), c=(WAITING, ("a", "b")))
    assert plan(existing, Expansion()).released == ()


def test_a_released_node_that_is_dropped_stays_dropped() -> None:
    existing = nodes(a=(DONE, ()), b=(WAITING, ("a",)), c=(RUNNING, ()))
    made = plan(existing, Expansion(drop=("b", "a")))
    assert made.released == ()
    assert made.dropped == ("b",)


def test_a_workflow_with_nothing_left_to_run_ends_as_failed() -> None:
    existing = nodes(a=(FAILED, ()), b=(WAITING, ("a",)))
    made = plan(existing, Expansion())
    assert isinstance(made.outcome, Failure)
    assert "b" in made.outcome.cause


def test_nodes_that_wait_for_each_other_do_not_hang() -> None:
    made = plan({}, Expansion(add=(spec("a", "b"), spec("b", "a"))))
    assert isinstance(made.outcome, Failure)


def test_the_definitions_outcome_is_kept() -> None:
    answer = Answer(sql="SELECT 1")
    assert plan(nodes(a=(DONE, ())), Expansion(outcome=answer)).outcome is answer


def test_memory_replaces_the_keys_it_names() -> None:
    existing = nodes(a=(RUNNING, ()))
    assert plan(existing, Expansion(), {"x": 1}).memory is None
    made = plan(existing, Expansion(memory={"y": 2}), {"x": 1, "y": 1})
    assert made.memory == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    "expansion",
    [
        Expansion(add=(spec("a"),)),
        Expansion(add=(spec("b"), spec("b"))),
        Expansion(add=(spec("b/c"),)),
        Expansion(add=(spec(""),)),
        Expansion(add=(spec("b", "ghost"),)),
        Expansion(drop=("ghost",)),
    ],
)
def test_impossible_expansions_are_refused(expansion: Expansion) -> None:
    with pytest.raises(InvalidExpansion):
        plan(nodes(a=(RUNNING, ())), expansion)
