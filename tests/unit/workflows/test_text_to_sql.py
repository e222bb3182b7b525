"""The text-to-sql workflow, question by question."""

from __future__ import annotations

from typing import Any

import pytest

from hexgen_celery.errors import InvalidSubmission, UnknownDatabase
from hexgen_celery.workflows.definition import Answer, Failure, LlmCall, NodeStatus, Outcome
from tests.unit.workflows.memory_executor import MemoryExecutor, prompt_of, submission_of
from tests.unit.workflows.shop import (
    EMPTY,
    GOOD,
    OTHER,
    SAME,
    SCHEMA,
    THIRD,
    WORSE,
    WRONG,
    ShopModel,
    fence,
    shop_question,
    text_to_sql,
)


def answered(outcome: Outcome) -> Answer:
    assert isinstance(outcome, Answer)
    return outcome


def candidate(answer: Answer | Failure, number: int) -> dict[str, Any]:
    found: dict[str, Any] = answer.detail["candidates"][number - 1]
    return found


def test_agreeing_candidates_are_answered_without_evaluation() -> None:
    run, model = shop_question(
        {"candidate.1": fence(GOOD), "candidate.2": fence(SAME), "candidate.3": fence(GOOD)}
    )
    answer = answered(run.run())
    assert answer.sql == GOOD
    assert answer.rows_from == "execution.1"
    assert answer.detail["why"] == "all 3 candidates returned the same result"
    assert set(model.specs) == {
        "link",
        "retrieve",
        *(f"{kind}.{number}" for kind in ("candidate", "execution") for number in (1, 2, 3)),
    }
    assert candidate(answer, 2)["votes"] == 3
    assert candidate(answer, 2)["status"] == "ok"
    assert answer.detail["linked"]["columns"] == ["item.price", "item.name"]
    assert answer.detail["warnings"] == []


def test_an_error_is_corrected_with_its_message_in_the_prompt() -> None:
    run, model = shop_question(
        {"candidate.1": fence(WRONG), "correction.1.1": fence(GOOD)}, options={"candidates": 1}
    )
    answer = answered(run.run())
    assert answer.rows_from == "execution.1.1"
    assert candidate(answer, 1)["healed"] is True
    assert candidate(answer, 1)["rounds"] == 1
    assert "no such column: title" in model.tail("correction.1.1")
    assert WRONG in model.tail("correction.1.1")
    spec = model.specs["correction.1.1"]
    assert (spec.stage, spec.step) == ("self_correction", "revise")
    assert isinstance(spec.call, LlmCall)
    assert spec.call.metadata["index"] == "1.1"
    assert spec.after == ("execution.1",)


def test_an_empty_result_is_corrected() -> None:
    run, _ = shop_question(
        {"candidate.1": fence(EMPTY), "correction.1.1": fence(GOOD)}, options={"candidates": 1}
    )
    answer = answered(run.run())
    assert answer.sql == GOOD
    assert candidate(answer, 1)["healed"] is True


def test_a_revision_never_replaces_something_better() -> None:
    run, _ = shop_question(
        {
            "candidate.1": fence(EMPTY),
            "correction.1.1": fence(WORSE),
            "correction.1.2": fence(WRONG),
        },
        options={"candidates": 1},
    )
    answer = answered(run.run())
    assert answer.sql == EMPTY
    assert answer.rows_from == "execution.1"
    assert candidate(answer, 1)["rounds"] == 2
    assert candidate(answer, 1)["healed"] is False
    assert "the result is empty" in answer.detail["warnings"]
    assert answer.detail["why"].startswith("no candidate returned rows")


def test_correction_ends_when_the_model_repeats_itself() -> None:
    run, model = shop_question(
        {"candidate.1": fence(WRONG), "correction.1.1": fence(f"  {WRONG} ;")},
        options={"candidates": 1, "correction_rounds": 5},
    )
    outcome = run.run()
    assert isinstance(outcome, Failure)
    assert set(model.specs) == {
        "link",
        "retrieve",
        "candidate.1",
        "execution.1",
        "correction.1.1",
    }


def test_a_failure_names_the_statements_fault_and_what_came_of_its_correction() -> None:
    run, _ = shop_question(
        {"candidate.1": fence(WRONG), "correction.1.1": None}, options={"candidates": 1}
    )
    outcome = run.run()
    assert isinstance(outcome, Failure)
    assert "no such column: title" in outcome.cause
    assert "; then: no server answers" in outcome.cause


def test_no_correction_when_none_is_allowed() -> None:
    run, model = shop_question(
        {"candidate.1": fence(WRONG)}, options={"candidates": 1, "correction_rounds": 0}
    )
    outcome = run.run()
    assert isinstance(outcome, Failure)
    assert outcome.stage == "self_correction"
    assert "no such column: title" in outcome.cause
    assert outcome.last_sql == WRONG
    assert "correction.1.1" not in model.specs


@pytest.mark.parametrize("text", ["I cannot say.", fence("DELETE FROM item"), ""])
def test_text_without_a_query_goes_to_correction_without_being_executed(text: str) -> None:
    run, model = shop_question(
        {"candidate.1": text, "correction.1.1": fence(GOOD)}, options={"candidates": 1}
    )
    answer = answered(run.run())
    assert answer.sql == GOOD
    assert "execution.1" not in model.specs
    assert model.specs["correction.1.1"].after == ("candidate.1",)
    assert "rejected" in model.tail("correction.1.1")


def test_a_writing_statement_is_refused_with_the_reason() -> None:
    sneaky = "WITH x AS (SELECT 1) DELETE FROM item"
    run, model = shop_question(
        {"candidate.1": fence(sneaky), "correction.1.1": fence(GOOD)}, options={"candidates": 1}
    )
    answered(run.run())
    assert "execution.1" not in model.specs
    assert "only reading is allowed" in model.tail("correction.1.1")


def test_differing_candidates_are_judged_by_tests_and_choice() -> None:
    run, model = shop_question(
        {
            "candidate.1": fence(GOOD),
            "candidate.2": fence(OTHER),
            "candidate.3": fence(THIRD),
            "unit_tests": '{"tests": ["The answer must list names."]}',
            "choose": 'Thinking…\n```json\n{"choice": 2, "reason": "it reads well"}\n```',
        }
    )
    answer = answered(run.run())
    assert answer.sql == OTHER
    assert answer.detail["chosen"] == {"candidate": 2}
    assert answer.detail["why"] == ("chosen by the model among 3 different results: it reads well")
    assert "The answer must list names." in model.tail("choose")
    assert model.specs["choose"].after == ("unit_tests",)
    assert model.specs["unit_tests"].after == ("execution.1", "execution.2", "execution.3")
    assert [cluster["votes"] for cluster in answer.detail["clusters"]] == [1, 1, 1]


def test_the_largest_cluster_is_shown_first() -> None:
    run, model = shop_question(
        {
            "candidate.1": fence(OTHER),
            "candidate.2": fence(GOOD),
            "candidate.3": fence(SAME),
            "choose": '{"choice": 1}',
        },
        options={"unit_tests": False},
    )
    answer = answered(run.run())
    assert answer.sql == GOOD
    assert answer.detail["chosen"] == {"candidate": 2}
    assert "unit_tests" not in model.specs
    tail = model.tail("choose")
    assert tail.index(GOOD) < tail.index(OTHER)


@pytest.mark.parametrize("choice", ["no idea", '{"choice": 9}', '{"choice": true}', None])
def test_an_unreadable_or_failed_choice_leaves_the_largest_cluster(choice: str | None) -> None:
    run, _ = shop_question(
        {
            "candidate.1": fence(OTHER),
            "candidate.2": fence(GOOD),
            "candidate.3": fence(SAME),
            "unit_tests": None,
            "choose": choice,
        }
    )
    answer = answered(run.run())
    assert answer.sql == GOOD
    assert "2 of 3 executed candidates" in answer.detail["why"]


def test_empty_results_do_not_contend_with_rows() -> None:
    run, model = shop_question(
        {"candidate.1": fence(EMPTY), "candidate.2": fence(GOOD), "candidate.3": fence(EMPTY)},
        options={"correction_rounds": 0},
    )
    answer = answered(run.run())
    assert answer.sql == GOOD
    assert answer.detail["why"] == "the only one of 3 candidates that returned rows"
    assert "choose" not in model.specs


def test_a_failed_branch_does_not_fail_the_question() -> None:
    run, _ = shop_question(
        {"candidate.1": None, "candidate.2": fence(GOOD), "candidate.3": fence(WRONG)},
        otherwise=None,
    )
    answer = answered(run.run())
    assert answer.sql == GOOD
    assert candidate(answer, 1)["status"] == "failed"
    assert "no server answers" in candidate(answer, 1)["error"]
    assert candidate(answer, 3)["rounds"] == 1


def test_failed_schema_linking_leaves_the_whole_schema() -> None:
    run, model = shop_question(
        {"link": None, "candidate.1": fence(GOOD)}, options={"candidates": 1}
    )
    answer = answered(run.run())
    assert answer.sql == GOOD
    assert model.specs["candidate.1"].after == ("retrieve",)
    assert any("schema linking failed" in warning for warning in answer.detail["warnings"])


def test_unreadable_schema_linking_is_noted() -> None:
    run, _ = shop_question(
        {"link": "{broken", "candidate.1": fence(GOOD)}, options={"candidates": 1}
    )
    answer = answered(run.run())
    assert "no readable answer" in answer.detail["linked"]["note"]


def test_every_request_failing_fails_the_question() -> None:
    run, _ = shop_question({"link": None}, otherwise=None)
    outcome = run.run()
    assert isinstance(outcome, Failure)
    assert outcome.stage == "candidate_generation"
    assert outcome.cause == "none of 3 candidates ran: no server answers"
    assert outcome.last_sql == ""


def test_a_lost_sandbox_ends_the_branch_without_asking_the_model() -> None:
    run, model = shop_question(
        {"candidate.1": fence(GOOD)},
        options={"candidates": 1},
        broken_sql=frozenset({"execution.1"}),
    )
    outcome = run.run()
    assert isinstance(outcome, Failure)
    assert outcome.cause.count("the sandbox is gone") == 1
    assert outcome.last_sql == GOOD
    assert "correction.1.1" not in model.specs


def test_best_effort_is_the_largest_group_so_far() -> None:
    run, _ = shop_question(
        {"candidate.1": fence(OTHER), "candidate.2": fence(GOOD), "candidate.3": fence(SAME)}
    )
    run._apply(run.definition.begin(run.submission))
    seen: list[str | None] = []
    while run.nodes.get("unit_tests") is None:
        answer = run.best_effort()
        seen.append(answer.sql if answer else None)
        assert run.step() is None
    final = run.best_effort()
    assert seen[0] is None
    assert final is not None
    assert final.sql == GOOD
    assert "the deadline came first" in final.detail["why"]
    assert final.rows_from == "execution.2"


def test_prompts_share_instructions_then_schema() -> None:
    run, model = shop_question({"candidate.1": fence(GOOD)}, otherwise=fence(GOOD))
    run.run()
    first, second = (model.specs[f"candidate.{number}"].call for number in (1, 2))
    assert isinstance(first, LlmCall)
    assert isinstance(second, LlmCall)
    assert first.parts == second.parts
    assert first.tail != second.tail
    assert first.seed != second.seed
    assert [part.role for part in first.parts] == ["system", "user"]
    text = prompt_of(model.specs["candidate.1"], run.parts)
    assert text.index("You write one SQLite query") < text.index(SCHEMA) < text.index("<question>")
    assert "dear: price > 3" in text
    assert "tables: item" in text
    prefix = ",".join(f"{part.hash}:{part.tokens}" for part in first.parts)
    assert first.metadata["prefix"] == prefix


def test_metadata_addresses_the_replayed_answer() -> None:
    run, model = shop_question(
        {}, otherwise=fence(GOOD), options={"question_key": "shop:17", "candidates": 2}
    )
    run.run()
    call = model.specs["candidate.2"].call
    assert isinstance(call, LlmCall)
    place = {name: call.metadata[name] for name in ("question", "stage", "step", "index")}
    assert place == {
        "question": "shop:17",
        "stage": "candidate_generation",
        "step": "candidate",
        "index": "2",
    }
    assert call.metadata["workflow"] == "wf-1"
    assert all(isinstance(value, str) for value in call.metadata.values())


def test_sampling_follows_the_options() -> None:
    options = {"temperature": 0.3, "seed": 40, "max_tokens": 99, "candidates": 2}
    run, model = shop_question({}, otherwise=fence(GOOD), options=options)
    run.run()
    call = model.specs["candidate.2"].call
    link = model.specs["link"].call
    assert isinstance(call, LlmCall)
    assert isinstance(link, LlmCall)
    assert (call.temperature, call.seed, call.max_tokens) == (0.3, 41, 99)
    assert call.output_tokens == 99.0
    assert (link.temperature, link.seed) == (0.0, 40)


@pytest.mark.parametrize("structured", [True, False])
def test_answers_that_are_json_are_kept_to_their_schema_where_wanted(structured: bool) -> None:
    run, model = shop_question(
        {
            "candidate.1": fence(GOOD),
            "candidate.2": fence(OTHER),
            "candidate.3": fence(THIRD),
            "unit_tests": '{"tests": ["any"]}',
            "choose": '{"choice": 2, "reason": "it reads well"}',
        },
        options={"structured": structured, "linking": "model"},
    )
    run.run()
    formats = {
        name: spec.call.response_format
        for name, spec in model.specs.items()
        if isinstance(spec.call, LlmCall)
    }
    with_schema = {name for name, wanted in formats.items() if wanted is not None}
    assert with_schema == ({"link", "unit_tests", "choose"} if structured else set())
    if structured:
        choose = formats["choose"]
        assert choose is not None
        assert choose["type"] == "json_schema"
        assert choose["json_schema"]["schema"]["properties"]["choice"] == {"enum": [1, 2, 3]}


def test_options_stay_as_they_were_when_the_question_began() -> None:
    run, model = shop_question({}, otherwise=fence(GOOD), options={"candidates": 2})
    outcome = run._apply(run.definition.begin(run.submission))
    run.definition = text_to_sql(schema="CREATE TABLE another (x);")
    while outcome is None:
        outcome = run.step()
    assert [node for node in run.nodes if node.startswith("candidate")] == [
        "candidate.1",
        "candidate.2",
    ]
    assert SCHEMA in prompt_of(model.specs["candidate.1"], run.parts)


@pytest.mark.parametrize(
    ("options", "field"),
    [({"candidates": 0}, "candidates"), ({"colour": 1}, "colour"), ({"temperature": 9}, "temp")],
)
def test_impossible_options_are_refused_by_name(options: dict[str, Any], field: str) -> None:
    submission = submission_of("text_to_sql", options=options)
    with pytest.raises(InvalidSubmission) as caught:
        text_to_sql().begin(submission)
    assert caught.value.field.startswith(field)
    assert "correction_rounds" in caught.value.hint


def test_an_unknown_database_is_refused() -> None:
    with pytest.raises(UnknownDatabase):
        text_to_sql().begin(submission_of("text_to_sql", database="nowhere"))


def test_a_dropped_request_counts_as_failed() -> None:
    model = ShopModel({"link": "{}", "candidate.2": fence(GOOD)})
    submission = submission_of("text_to_sql", options={"candidates": 2, "correction_rounds": 0})
    run = MemoryExecutor(text_to_sql(), submission, model)
    run._apply(run.definition.begin(submission))
    for _ in ("link", "retrieve"):
        run.step()
    dropped = run.nodes["candidate.1"]
    run.nodes["candidate.1"] = type(dropped)(dropped.spec, NodeStatus.DROPPED)
    assert run.step() is None
    outcome = run.step()
    assert outcome is not None
    assert candidate(answered(outcome), 1)["error"] == "the request was dropped"
