"""When time is short, optional work is left out in one set order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hexgen_celery.settings import PipelineSettings
from hexgen_celery.workflows.candidate_branches import Branch, Phase
from hexgen_celery.workflows.definition import (
    Answer,
    LlmCall,
    NodeKind,
    NodeSpec,
    NodeState,
    NodeStatus,
)
from hexgen_celery.workflows.degradation import (
    DegradationRules,
    Economies,
    Situation,
    tighten,
)
from hexgen_celery.workflows.pipeline_options import resolve_options
from tests.unit.workflows.memory_executor import Finished, MemoryExecutor, submission_of
from tests.unit.workflows.shop import GOOD, OTHER, WRONG, ShopModel, fence, text_to_sql

OPTIONS = resolve_options({"candidates": 3, "correction_rounds": 2}, PipelineSettings(), 3)
TOKENS = {"candidate": 100.0, "revise": 40.0, "unit_tests": 30.0, "choose": 10.0}
EXACT = DegradationRules(execution_seconds=1.0, margin=1.0)


def done(name: str, output_tokens: int, per_token: float = 1.0) -> NodeState:
    """A request that generated from its first moment on, `per_token` seconds each."""
    spec = NodeSpec(name, NodeKind.LLM, "stage", "step", LlmCall((), "", 1, 1.0, 1))
    seconds = output_tokens * per_token
    result = {"output_tokens": output_tokens, "seconds": seconds, "first_token_seconds": 0.0}
    return NodeState(spec, NodeStatus.DONE, result=result)


def level(left: float, branches: list[Branch], nodes: list[NodeState] | None = None) -> list[str]:
    """What is left out with `left` seconds to go at a pace of one second per token."""
    nodes = nodes or [done("link", 50)]
    tokens = sum(int((node.result or {})["output_tokens"]) for node in nodes)
    submission = submission_of("text_to_sql", submitted_at=0.0, deadline=tokens + left)
    known = {node.spec.id: node for node in nodes}
    situation = Situation(submission, known, branches, now=float(tokens))
    return tighten(Economies(OPTIONS), situation, TOKENS.__getitem__, EXACT).told()


ASKING = [Branch(number, (), Phase.ASK, 0) for number in (1, 2, 3)]
CORRECTING = [
    Branch(1, (), Phase.ASK, 1, requests=1),
    Branch(2, (), Phase.SETTLED, 0, requests=1),
]
SETTLED = [Branch(number, (), Phase.SETTLED, 0, requests=1) for number in (1, 2)]


@pytest.mark.parametrize(
    ("left", "branches", "left_out"),
    [
        (141, ASKING, []),
        (140, ASKING, ["unit tests"]),
        (110, ASKING, ["unit tests", "2 correction rounds", "choice by the model"]),
        (
            50,
            ASKING,
            ["unit tests", "2 correction rounds", "choice by the model", "2 candidates"],
        ),
        (81, CORRECTING, []),
        (80, CORRECTING, ["unit tests"]),
        (50, CORRECTING, ["unit tests", "2 correction rounds"]),
        (5, CORRECTING, ["unit tests", "2 correction rounds", "choice by the model"]),
        (40, SETTLED, []),
        (39, SETTLED, ["unit tests"]),
        (9, SETTLED, ["unit tests", "2 correction rounds", "choice by the model"]),
    ],
)
def test_work_is_left_out_in_order_and_no_more_than_must_be(
    left: float, branches: list[Branch], left_out: list[str]
) -> None:
    assert level(left, branches) == left_out


def test_nothing_is_known_before_the_first_request_is_done() -> None:
    nodes = {"link": NodeState(done("link", 1).spec, NodeStatus.RUNNING)}
    situation = Situation(submission_of("text_to_sql"), nodes, ASKING, now=59.0)
    assert tighten(Economies(OPTIONS), situation, TOKENS.__getitem__).level == 0


def test_degradation_can_be_forbidden() -> None:
    economies = Economies(replace(OPTIONS, degrade=False))
    situation = Situation(submission_of("text_to_sql"), {"link": done("link", 1)}, ASKING, 59.0)
    assert tighten(economies, situation, TOKENS.__getitem__) == economies


def test_what_was_left_out_is_never_taken_up_again() -> None:
    taken = Economies(OPTIONS, 2)
    situation = Situation(submission_of("text_to_sql"), {"link": done("link", 1)}, SETTLED, 0.0)
    assert tighten(taken, situation, TOKENS.__getitem__) == taken


def test_the_pace_follows_the_slowest_candidate() -> None:
    nodes = [done("link", 50, 10), done("candidate.1", 20, 10), done("candidate.2", 30, 10)]
    submission = submission_of("text_to_sql", deadline=1000.0)
    known = {node.spec.id: node for node in nodes}
    # 80 tokens in 800 s: the tests and the choice need 400 s, of which 200 are left.
    situation = Situation(submission, known, SETTLED, now=800.0)
    found = tighten(Economies(OPTIONS), situation, TOKENS.__getitem__, EXACT)
    assert found.told() == ["unit tests"]


def test_waiting_counts_once_for_each_request_to_come_and_not_for_each_token() -> None:
    """Two seconds at the start for eight tokens are no quarter of a second per token."""
    submission = submission_of("text_to_sql", submitted_at=0.0, deadline=60.0)
    situation = Situation(submission, {"link": done("link", 8, 0.001)}, ASKING, now=2.0)
    assert tighten(Economies(OPTIONS), situation, TOKENS.__getitem__).told() == []
    late = Situation(submission, {"link": done("link", 8, 0.001)}, ASKING, now=52.0)
    assert "unit tests" in tighten(Economies(OPTIONS), late, TOKENS.__getitem__).told()


class Slow(ShopModel):
    """Every answer has 100 tokens."""

    def __call__(self, spec: NodeSpec) -> Finished:
        finished = super().__call__(spec)
        if spec.kind is NodeKind.LLM and finished.result is not None:
            return Finished({**finished.result, "output_tokens": 100})
        return finished


def ask(linking: float, later: float, options: dict[str, object]) -> tuple[Answer, MemoryExecutor]:
    """A question of 60 s with these seconds for each node; its candidates disagree."""
    script = {
        "candidate.1": fence(WRONG),
        "candidate.2": fence(GOOD),
        "candidate.3": fence(OTHER),
        "correction.1.1": fence(GOOD),
    }
    model = Slow({"link": "{}", **script})
    run = MemoryExecutor(text_to_sql(), submission_of("text_to_sql", options=options), model)
    outcome = run._apply(run.definition.begin(run.submission))
    while outcome is None:
        run.now += later if len(run.finished) > 1 else linking
        outcome = run.step()
    assert isinstance(outcome, Answer)
    return outcome, run


def test_a_question_with_time_leaves_nothing_out() -> None:
    answer, run = ask(0.01, 0.01, {})
    assert answer.detail["left_out"] == []
    assert {"correction.1.1", "unit_tests", "choose"} <= set(run.nodes)


def test_a_late_question_asks_one_candidate_and_says_so() -> None:
    answer, run = ask(20.0, 1.0, {})
    assert answer.detail["left_out"] == [
        "unit tests",
        "2 correction rounds",
        "choice by the model",
        "2 candidates",
    ]
    assert [name for name in run.nodes if name.startswith("candidate")] == ["candidate.1"]


def test_the_only_candidate_is_corrected_however_late() -> None:
    answer, run = ask(20.0, 1.0, {})
    assert "correction.1.1" in run.nodes
    assert answer.sql == GOOD


def test_results_are_voted_on_where_no_choice_fits() -> None:
    answer, run = ask(1.0, 8.0, {"correction_rounds": 0})
    assert answer.detail["decided_by"] == "vote"
    assert answer.detail["left_out"] == ["unit tests", "choice by the model"]
    assert "no time was left" in answer.detail["why"]
    assert "choose" not in run.nodes
