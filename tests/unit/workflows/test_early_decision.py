"""Enough equal results decide a question before all candidates have come."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hexgen_celery.errors import InvalidSubmission
from hexgen_celery.settings import PipelineSettings
from hexgen_celery.workflows.agreement import AgreementTable, learnt_agreement
from hexgen_celery.workflows.candidate_branches import Branch, Phase
from hexgen_celery.workflows.definition import Answer, Expansion, LlmCall, NodeState, NodeStatus
from hexgen_celery.workflows.pipeline_options import resolve_options
from hexgen_celery.workflows.question_order import asks_for_order
from hexgen_celery.workflows.result_clusters import agreed, clusters_of
from hexgen_celery.workflows.savings import saved_by_dropping, unfinished
from hexgen_celery.workflows.stage_contract import Attempt
from tests.unit.workflows.memory_executor import MemoryExecutor
from tests.unit.workflows.shop import EMPTY, GOOD, OTHER, SAME, fence, shop_question


def finish(run: MemoryExecutor, *names: str) -> Expansion:
    """Run exactly these nodes, in this order; what the last one led to."""
    expansion = Expansion()
    for name in names:
        node = run.nodes[name]
        ended = run.run_node(node.spec)
        run.nodes[name] = NodeState(node.spec, NodeStatus.DONE, result=ended.result)
        expansion = run.definition.advance(run.view(), run.nodes[name])
        run._apply(expansion)
    return expansion


def begun(agreement: int | str, candidates: int = 4) -> MemoryExecutor:
    """A question whose candidates are asked for."""
    script = {
        "candidate.1": fence(OTHER),
        "candidate.2": fence(GOOD),
        "candidate.3": fence(SAME),
        "candidate.4": fence(GOOD),
    }
    run, _ = shop_question(script, options={"candidates": candidates, "agreement": agreement})
    run._apply(run.definition.begin(run.submission))
    finish(run, "link", "retrieve")
    return run


def test_enough_equal_results_decide_and_cancel_the_rest() -> None:
    run = begun(2)
    finish(run, "candidate.2", "candidate.3", "candidate.1", "execution.2")
    waiting = run.nodes["candidate.4"].spec.call
    expansion = finish(run, "execution.3")
    assert set(expansion.drop) == {"candidate.4", "execution.1"}
    assert isinstance(expansion.outcome, Answer)
    detail = expansion.outcome.detail
    assert expansion.outcome.sql == GOOD
    assert detail["decided_by"] == "early_agreement"
    assert detail["why"] == "2 of 4 candidates returned the same result, and 2 are enough"
    assert detail["saved"] == {
        "requests": 1,
        "executions": 1,
        "begun": 0,
        "unasked": 0,
        "tokens": waiting.input_tokens + round(waiting.output_tokens),  # type: ignore[union-attr]
    }


def test_fewer_equal_results_wait_for_the_others() -> None:
    run = begun(3)
    finish(run, "candidate.2", "candidate.3", "execution.2")
    assert finish(run, "execution.3") == Expansion()


def test_without_agreement_all_candidates_are_awaited() -> None:
    run = begun(0)
    finish(run, "candidate.2", "candidate.3", "candidate.4")
    finish(run, "execution.2", "execution.3")
    assert finish(run, "execution.4").outcome is None


def test_equal_empty_results_decide_nothing() -> None:
    run, _ = shop_question(
        {"candidate.1": fence(EMPTY), "candidate.2": fence(EMPTY)},
        options={"candidates": 3, "agreement": 2},
    )
    run._apply(run.definition.begin(run.submission))
    finish(run, "link", "retrieve", "candidate.1", "candidate.2", "execution.1")
    assert finish(run, "execution.2").outcome is None


def test_a_majority_that_is_enough_needs_no_choice_by_the_model() -> None:
    run, model = shop_question(
        {"candidate.1": fence(OTHER), "candidate.2": fence(GOOD), "candidate.3": fence(SAME)},
        options={"agreement": 2},
        seed=3,
    )
    outcome = run.run()
    assert isinstance(outcome, Answer)
    assert outcome.sql in (GOOD, SAME)
    assert not {"unit_tests", "choose"} & set(model.specs)


@pytest.mark.parametrize("seed", range(5))
def test_all_candidates_agreeing_saves_nothing(seed: int) -> None:
    run, _ = shop_question({}, otherwise=fence(GOOD), options={"agreement": 3})
    run.order = random.Random(seed)
    outcome = run.run()
    assert isinstance(outcome, Answer)
    assert outcome.detail["decided_by"] == "agreement"
    assert outcome.detail["saved"]["requests"] == 0


def test_running_requests_count_as_begun() -> None:
    run = begun(2)
    node = run.nodes["candidate.4"]
    run.nodes["candidate.4"] = NodeState(node.spec, NodeStatus.RUNNING)
    saved = saved_by_dropping(run.nodes, unfinished(run.nodes))
    assert (saved.requests, saved.begun) == (4, 1)
    others = [run.nodes[f"candidate.{number}"].spec.call for number in (1, 2, 3)]
    assert saved.tokens == sum(
        call.input_tokens + round(call.output_tokens)
        for call in others
        if isinstance(call, LlmCall)
    )


def asked_in_waves(results: list[str], agreement: int) -> tuple[list[int], Answer]:
    """How many candidates had been asked for after each execution, and the answer."""
    script = {f"candidate.{number}": fence(sql) for number, sql in enumerate(results, start=1)}
    options = {"candidates": 5, "agreement": agreement, "waves": True, "correction_rounds": 0}
    run, _ = shop_question({**script, "choose": '{"choice": 1}'}, options=options)
    outcome, seen = run._apply(run.definition.begin(run.submission)), list[int]()
    while outcome is None:
        outcome = run.step()
        if run.finished[-1].startswith("execution"):
            seen.append(sum(name.startswith("candidate") for name in run.nodes))
    assert isinstance(outcome, Answer)
    return seen, outcome


def test_waves_ask_for_no_more_candidates_than_could_agree() -> None:
    seen, answer = asked_in_waves([GOOD, SAME, OTHER, OTHER, OTHER], 2)
    assert seen == [2, 2]
    assert answer.detail["decided_by"] == "early_agreement"
    assert answer.detail["why"] == "2 of 5 candidates returned the same result, and 2 are enough"
    assert answer.detail["saved"]["unasked"] == 3
    assert answer.detail["saved"]["tokens"] > 0


def test_waves_go_on_until_enough_agree() -> None:
    seen, answer = asked_in_waves([GOOD, OTHER, EMPTY, SAME, GOOD], 2)
    assert seen == [2, 3, 4, 4]
    assert answer.sql in (GOOD, SAME)
    assert answer.detail["saved"]["unasked"] == 1


def test_waves_end_with_a_choice_among_all_candidates() -> None:
    seen, answer = asked_in_waves([EMPTY, EMPTY, GOOD, OTHER, EMPTY], 2)
    assert seen == [2, 4, 4, 5, 5][: len(seen)]
    assert len(seen) == 5
    assert answer.detail["decided_by"] == "choice"


def _branch(number: int, digest: str, distinct: str = "", ordered: str = "") -> Branch:
    attempt = Attempt(
        f"candidate.{number}",
        0,
        f"SELECT {number}",
        "ok",
        row_count=1,
        digest=digest,
        distinct_digest=distinct,
        ordered_digest=ordered,
    )
    return Branch(number, (attempt,), Phase.SETTLED, 0, requests=1)


def test_repeated_rows_do_not_tell_results_apart_but_the_commoner_form_is_shown() -> None:
    branches = [_branch(1, "twice", "set"), _branch(2, "once", "set"), _branch(3, "once", "set")]
    (cluster,) = clusters_of(branches)
    assert cluster.votes == 3
    assert cluster.first.sql == "SELECT 2"


def test_the_order_of_rows_counts_only_where_it_is_asked_for() -> None:
    branches = [_branch(1, "d", "d", "up"), _branch(2, "d", "d", "down")]
    assert len(clusters_of(branches)) == 1
    assert len(clusters_of(branches, ordered=True)) == 2


def test_agreement_needs_rows_and_the_number() -> None:
    clusters = clusters_of([_branch(1, "a"), _branch(2, "a"), _branch(3, "b")])
    assert agreed(clusters, 2) is clusters[0]
    assert agreed(clusters, 3) is None
    assert agreed(clusters, 0) is None
    assert agreed((), 1) is None


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("List the schools sorted by enrolment.", True),
        ("Rank the heroes by height.", True),
        ("Give names in alphabetical order", True),
        ("List members from the oldest to the youngest.", True),
        ("Show ages in descending order", True),
        ("Which school has the highest score?", False),
        ("In which order was the member born?", False),
        ("What is the rank of the third hero?", False),
    ],
)
def test_questions_that_ask_for_an_order(question: str, asks: bool) -> None:
    assert asks_for_order(question) is asks


def test_the_learnt_table_asks_more_of_weak_models() -> None:
    table = learnt_agreement()
    assert table.of("OpenAI/GPT-4-turbo") == 2
    assert table.of("Qwen/Qwen3-Coder-30B-A3B-Instruct") == 2
    assert table.of("meta-llama/Llama-3-8B-Instruct") == 3
    assert table.of("nobody/knows") == table.otherwise == 3
    assert table.of_all(["gpt-4", "phi-3-medium"]) == 3
    assert table.of_all([]) == 3


def test_a_table_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "agreement.toml"
    path.write_text('otherwise = 4\n[[models]]\nname = "tiny"\nneeded = 5\n', encoding="utf-8")
    assert learnt_agreement(path) == AgreementTable((("tiny", 5),), 4)


def test_auto_is_what_was_learnt_and_never_more_than_all_candidates() -> None:
    def agreement(options: dict[str, object]) -> int:
        return resolve_options(options, PipelineSettings(), 3).agreement

    assert agreement({}) == 3
    assert agreement({"candidates": 2}) == 2
    assert agreement({"agreement": 2}) == 2
    assert agreement({"agreement": 0}) == 0
    with pytest.raises(InvalidSubmission) as caught:
        agreement({"agreement": "often"})
    assert caught.value.field.startswith("agreement")
