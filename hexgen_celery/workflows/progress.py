"""How far a text-to-sql question has come: its options, its schema and its branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hexgen_celery.workflows.candidate_branches import (
    Branch,
    Nodes,
    Phase,
    is_final,
    read_branch,
    request_id,
)
from hexgen_celery.workflows.definition import (
    Json,
    NodeStatus,
    PartRef,
    Submission,
    WorkflowView,
)
from hexgen_celery.workflows.degradation import Economies
from hexgen_celery.workflows.linking import LinkingPlan, read_linked
from hexgen_celery.workflows.pipeline_options import PipelineOptions
from hexgen_celery.workflows.question_order import asks_for_order
from hexgen_celery.workflows.result_clusters import Cluster, agreed, clusters_of
from hexgen_celery.workflows.stage_contract import LinkedSchema, Question, Stages

UNIT_TESTS = "unit_tests"
CHOOSE = "choose"

OPTIONS_MEMORY = "options"
SCHEMA_MEMORY = "schema"
ECONOMIES_MEMORY = "economies"


@dataclass(frozen=True, slots=True)
class Progress:
    """Everything the workflow decides by. `linked` is None until schema linking is over."""

    submission: Submission
    options: PipelineOptions
    schema: PartRef
    nodes: Nodes
    plan: LinkingPlan
    economies: Economies
    linked: LinkedSchema | None = None
    branches: tuple[Branch, ...] = ()

    @property
    def question(self) -> Question:
        """The question as stages see it."""
        return Question(self.submission.question, self.submission.evidence)

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """The candidates that ran so far, grouped by result."""
        return clusters_of(self.branches, ordered=asks_for_order(self.submission.question))

    @property
    def agreed(self) -> Cluster | None:
        """The result that enough candidates returned to need no others, if there is one."""
        return agreed(self.clusters, self.options.agreement)

    @property
    def branches_begun(self) -> bool:
        """Whether any candidate was asked for."""
        return any(branch.requests for branch in self.branches)

    @property
    def settled(self) -> bool:
        """Whether nothing more will happen to any candidate."""
        return all(branch.phase is Phase.SETTLED for branch in self.branches)

    def pending(self, node: str) -> bool:
        """Whether the node exists and is not over."""
        state = self.nodes.get(node)
        return state is not None and not is_final(state)

    def text(self, node: str) -> str | None:
        """What the model answered in that node; None where it failed or is not there."""
        state = self.nodes.get(node)
        if state is None or state.status is not NodeStatus.DONE or state.result is None:
            return None
        return str(state.result.get("text", ""))

    def done(self, *nodes: str) -> tuple[str, ...]:
        """Those of `nodes` that are done, which a new node can be put after."""
        return tuple(
            node
            for node in nodes
            if node in self.nodes and self.nodes[node].status is NodeStatus.DONE
        )


def schema_memory(schema: PartRef) -> Json:
    """Which schema the question's prompts hold from now on."""
    return {SCHEMA_MEMORY: {"hash": schema.hash, "tokens": schema.tokens, "role": schema.role}}


def economies_memory(economies: Economies) -> Json:
    """How much optional work is left out from now on."""
    return {ECONOMIES_MEMORY: economies.level}


def initial_memory(options: PipelineOptions, schema: PartRef, plan: LinkingPlan) -> Json:
    """What `read_progress` needs beside the nodes, noted when the question begins.

    The schema is named, not held: its text is stored once for all questions, and a question keeps
    the schema it began with when the file is refreshed meanwhile.
    """
    return {OPTIONS_MEMORY: options.to_json(), **schema_memory(schema), **plan.to_memory()}


def read_progress(
    view: WorkflowView, stages: Stages, economies: Economies | None = None
) -> Progress:
    """The question's progress, as its nodes show it, with the `economies` it noted or these."""
    nodes = view.nodes
    options = PipelineOptions(**_noted(view.memory, OPTIONS_MEMORY))
    economies = economies or Economies(options, int(view.memory.get(ECONOMIES_MEMORY, 0)))
    plan = LinkingPlan.from_memory(view.memory)
    question = Question(view.submission.question, view.submission.evidence)
    linked = read_linked(plan, question, nodes, stages.schema_linking)
    ordered = asks_for_order(view.submission.question)
    branches = _branches(nodes, stages, economies, ordered) if linked is not None else ()
    return Progress(
        submission=view.submission,
        options=options,
        schema=PartRef(**_noted(view.memory, SCHEMA_MEMORY)),
        nodes=nodes,
        plan=plan,
        economies=economies,
        linked=linked,
        branches=branches,
    )


def _branches(
    nodes: Nodes, stages: Stages, economies: Economies, ordered: bool
) -> tuple[Branch, ...]:
    """The candidates that are called for by now.

    Corrections that were left out are made all the same where without them no candidate has run: a
    late answer is worth more than none.
    """
    options = economies.options
    read_sql = stages.candidate_generation.read

    def read(numbers: Sequence[int], allowed: int) -> tuple[Branch, ...]:
        rounds = options.correction_rounds
        return tuple(read_branch(n, nodes, rounds, read_sql, allowed=allowed) for n in numbers)

    wanted = [
        number
        for number in range(1, options.candidates + 1)
        if number <= economies.candidates or request_id(number, 0) in nodes
    ]
    called = options.agreement if options.waves and options.agreement else len(wanted)
    branches = read(wanted[:called], economies.rounds)
    while called < len(wanted) and (more := _missing(branches, options.agreement, ordered)):
        called += more
        branches = read(wanted[:called], economies.rounds)
    nothing_ran = all(b.phase is Phase.SETTLED and b.executed is None for b in branches)
    return read(wanted[:called], options.correction_rounds) if nothing_ran else branches


def _missing(branches: Sequence[Branch], agreement: int, ordered: bool) -> int:
    """How many more candidates could bring the agreement, once these have come to none."""
    if any(branch.phase is not Phase.SETTLED for branch in branches):
        return 0
    clusters = clusters_of(branches, ordered=ordered)
    votes = clusters[0].votes if clusters and not clusters[0].empty else 0
    return max(0, agreement - votes)


def _noted(memory: Mapping[str, Any], name: str) -> dict[str, Any]:
    noted = memory[name]
    assert isinstance(noted, dict)
    return noted
