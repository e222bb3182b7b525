"""Runs a workflow definition in memory: every node by a function, in a random order."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hexgen_celery.core.prefix import prefix_tokens
from hexgen_celery.parts import stored_parts
from hexgen_celery.workflows.definition import (
    Answer,
    Definition,
    Expansion,
    Json,
    LlmCall,
    NodeSpec,
    NodeState,
    NodeStatus,
    Outcome,
    Submission,
    WorkflowView,
)

MAX_STEPS = 10_000


@dataclass(frozen=True)
class Finished:
    """What became of a node."""

    result: Json | None = None
    error: Json | None = None


Runner = Callable[[NodeSpec], Finished]


@dataclass
class MemoryExecutor:
    """One question. It insists on everything the coordinator relies on."""

    definition: Definition
    submission: Submission
    run_node: Runner
    order: random.Random = field(default_factory=lambda: random.Random(1))
    nodes: dict[str, NodeState] = field(default_factory=dict)
    memory: Json = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)
    now: float = 0.0

    def run(self) -> Outcome:
        """Run to the outcome; fails when nothing is left to run before there is one."""
        outcome = self._apply(self.definition.begin(self.submission))
        for _ in range(MAX_STEPS):
            if outcome is not None:
                return outcome
            outcome = self.step()
        raise AssertionError("no end in sight")

    def step(self) -> Outcome | None:
        """Run one node, chosen at random, and what follows from it."""
        open_nodes = [n for n in self.nodes.values() if n.status is NodeStatus.READY]
        assert open_nodes, "nothing is left to run and there is no outcome"
        node = self.order.choice(open_nodes)
        ended = self.run_node(node.spec)
        status = NodeStatus.FAILED if ended.result is None else NodeStatus.DONE
        done = NodeState(node.spec, status, result=ended.result, error=ended.error)
        self.nodes[node.spec.id] = done
        self.finished.append(node.spec.id)
        expansion = self.definition.advance(self.view(), done)
        assert self.definition.advance(self.view(), done) == expansion, "advance is not pure"
        outcome = self._apply(expansion)
        if outcome is None:
            again = self.definition.advance(self.view(), done)
            assert again == Expansion(), "the same completion, told twice, does something again"
        return outcome

    def best_effort(self) -> Answer | None:
        """The answer if the deadline came now."""
        return self.definition.best_effort(self.view())

    def view(self) -> WorkflowView:
        """The workflow as it is."""
        return WorkflowView(self.submission, dict(self.nodes), dict(self.memory), self.now)

    def _apply(self, expansion: Expansion) -> Outcome | None:
        # The coordinator keeps a part only when a node that comes with it refers to it.
        needed = stored_parts(expansion.add)
        self.parts.update(
            {name: expansion.parts[name] for name in needed if name in expansion.parts}
        )
        self.memory.update(expansion.memory)
        for spec in expansion.add:
            self._add(spec)
        for name in expansion.drop:
            assert self.nodes[name].status is NodeStatus.READY, f"{name} is over already"
            self.nodes[name] = NodeState(self.nodes[name].spec, NodeStatus.DROPPED)
        return expansion.outcome

    @property
    def dropped(self) -> set[str]:
        """The nodes that were cancelled."""
        return {n.spec.id for n in self.nodes.values() if n.status is NodeStatus.DROPPED}

    def _add(self, spec: NodeSpec) -> None:
        assert spec.id not in self.nodes, f"{spec.id} was added twice"
        for name in spec.after:
            assert self.nodes[name].status is NodeStatus.DONE, (
                f"{spec.id} waits for {name} for ever"
            )
        if isinstance(spec.call, LlmCall):
            self._check_call(spec, spec.call)
        self.nodes[spec.id] = NodeState(spec, NodeStatus.READY)

    def _check_call(self, spec: NodeSpec, call: LlmCall) -> None:
        for part in call.parts:
            assert part.hash.startswith("syn:") or part.hash in self.parts, f"no part {part.hash}"
        assert call.metadata["node"] == spec.id
        assert call.metadata["input_tokens"] == str(call.input_tokens)
        assert prefix_tokens(call.prefix) <= call.input_tokens
        assert call.output_tokens > 0


def prompt_of(spec: NodeSpec, parts: Mapping[str, str]) -> str:
    """The whole text an LLM node sends."""
    assert isinstance(spec.call, LlmCall)
    return "".join(parts[part.hash] for part in spec.call.parts) + spec.call.tail


def submission_of(workflow: str, question: str = "How many?", **changes: object) -> Submission:
    """A submission with plain defaults."""
    values: dict[str, object] = {
        "workflow_id": "wf-1",
        "workflow": workflow,
        "question": question,
        "database": "shop",
        "slo_seconds": 60.0,
        "submitted_at": 0.0,
        "deadline": 60.0,
    }
    return Submission(**{**values, **changes})  # type: ignore[arg-type]
