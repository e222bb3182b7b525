"""Whatever the model writes, whatever fails, in whatever order: an outcome, within bounds."""

from __future__ import annotations

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from hexgen_celery.settings import PipelineSettings
from hexgen_celery.workflows.definition import Answer, Json, NodeSpec, SqlCall
from hexgen_celery.workflows.pipeline_options import PipelineOptions, resolve_options
from tests.unit.workflows.memory_executor import Finished, MemoryExecutor, submission_of
from tests.unit.workflows.shop import (
    EMPTY,
    GOOD,
    OTHER,
    SAME,
    THIRD,
    WORSE,
    WRONG,
    fence,
    run_sql,
    text_to_sql,
)

QUERIES = (GOOD, SAME, OTHER, THIRD, EMPTY, WRONG, WORSE, "DELETE FROM item", "SELECT 1; SELECT 2")
TEXTS = st.one_of(
    st.sampled_from(QUERIES).map(fence),
    st.sampled_from(QUERIES),
    st.text(max_size=80),
    st.sampled_from(
        (
            "{" * 3000,
            "[" * 3000,
            '{"choice": 2, "reason": "so"}',
            '{"choice": "1"}',
            '{"choice": -1}',
            '{"choice": 1e400, "tests": {}}',
            '{"tests": ["one", 2, null], "tables": "item"}',
            '{"tables": [1, {"a": 2}, "item"], "columns": null}',
            "<think>never ending",
            "```sql\nSELECT",
            "SELECT " + "(" * 500,
        )
    ),
    st.builds(
        json.dumps, st.dictionaries(st.sampled_from(("choice", "tests", "tables")), st.integers())
    ),
)
ODD_RESULTS = st.sampled_from(
    (
        {"status": "timeout", "error": "stopped after 30 s"},
        {"status": "too_large", "error": "out of memory"},
        {"status": "rejected", "error": "only reading"},
        {"status": "ok"},
        {},
    )
)
OPTIONS = st.fixed_dictionaries(
    {
        "candidates": st.integers(1, 4),
        "correction_rounds": st.integers(0, 3),
        "unit_tests": st.booleans(),
        "agreement": st.sampled_from(("auto", 0, 1, 2, 4)),
        "waves": st.booleans(),
        "linking": st.sampled_from(("auto", "model", "rules")),
        "schema_tokens": st.sampled_from((1, 100_000)),
    }
)


class Chaos:
    """Runs nodes with answers drawn from hypothesis; nodes fail, results come out odd."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self.executed: dict[str, Json] = {}

    def __call__(self, spec: NodeSpec) -> Finished:
        if self._data.draw(st.integers(0, 7)) == 0:
            error = self._data.draw(st.sampled_from((None, {}, {"message": "gone"})))
            return Finished(error=error)
        if isinstance(spec.call, SqlCall):
            odd = self._data.draw(st.integers(0, 4)) == 0
            result = self._data.draw(ODD_RESULTS) if odd else run_sql(spec.call)
            if spec.call.op == "execute":
                self.executed[spec.id] = result
            return Finished(result)
        return Finished({"text": self._data.draw(TEXTS)})


@settings(max_examples=150, deadline=None)
def most_nodes(options: PipelineOptions) -> int:
    """Linking and retrieval; for each candidate every attempt and its execution; evaluation."""
    return 2 + options.candidates * 2 * (1 + options.correction_rounds) + 2


@given(data=st.data(), options=OPTIONS, seed=st.integers(0, 10**6))
def test_there_is_always_an_outcome_within_bounds(
    data: st.DataObject, options: Json, seed: int
) -> None:
    chaos = Chaos(data)
    submission = submission_of("text_to_sql", options=options)
    run = MemoryExecutor(text_to_sql(), submission, chaos, random.Random(seed))
    outcome = run.run()
    assert len(run.nodes) <= most_nodes(resolve_options(options, PipelineSettings()))
    left = set(run.nodes) - set(run.finished)
    assert left == run.dropped, "the outcome came while something was running"
    early = outcome.detail["decided_by"] == "early_agreement"
    assert early or not left
    json.dumps(outcome.detail, allow_nan=False)
    unasked = outcome.detail["saved"]["unasked"]
    assert len(outcome.detail["candidates"]) + unasked == options["candidates"]
    assert early or not unasked
    ran = {node for node, result in chaos.executed.items() if result.get("status") == "ok"}
    if isinstance(outcome, Answer):
        assert outcome.rows_from in ran
        call = run.nodes[outcome.rows_from].spec.call
        assert isinstance(call, SqlCall)
        assert outcome.sql == call.sql
        assert outcome.detail["why"]
    else:
        assert not ran
        assert outcome.cause
        assert outcome.stage in {"candidate_generation", "self_correction"}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), options=OPTIONS, seed=st.integers(0, 10**6))
def test_best_effort_never_gets_worse_and_never_invents(
    data: st.DataObject, options: Json, seed: int
) -> None:
    chaos = Chaos(data)
    submission = submission_of("text_to_sql", options=options)
    run = MemoryExecutor(text_to_sql(), submission, chaos, random.Random(seed))
    outcome = run._apply(run.definition.begin(submission))
    had_answer, had_rows = False, False
    while outcome is None:
        answer = run.best_effort()
        if answer is not None:
            assert answer.rows_from in chaos.executed
            assert chaos.executed[answer.rows_from]["status"] == "ok"
            has_rows = bool(chaos.executed[answer.rows_from].get("row_count"))
            assert has_rows or not had_rows
            had_rows = has_rows
        assert answer is not None or not had_answer
        had_answer = answer is not None
        outcome = run.step()
    assert isinstance(outcome, Answer) == (run.best_effort() is not None)


@settings(max_examples=30, deadline=None)
@given(seeds=st.lists(st.integers(0, 10**6), min_size=2, max_size=4, unique=True))
def test_the_answer_does_not_depend_on_the_order_of_completions(seeds: list[int]) -> None:
    script = {
        "link": "{}",
        "candidate.1": fence(WRONG),
        "correction.1.1": fence(OTHER),
        "candidate.2": fence(GOOD),
        "candidate.3": fence(SAME),
        "unit_tests": '{"tests": []}',
        "choose": '{"choice": 1, "reason": "votes"}',
    }

    def run_node(spec: NodeSpec) -> Finished:
        if isinstance(spec.call, SqlCall):
            return Finished(run_sql(spec.call))
        return Finished({"text": script[spec.id]})

    outcomes = [
        MemoryExecutor(
            text_to_sql(), submission_of("text_to_sql"), run_node, random.Random(seed)
        ).run()
        for seed in seeds
    ]
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert isinstance(outcomes[0], Answer)
    assert outcomes[0].sql == GOOD
