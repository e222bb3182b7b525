"""Whatever is stored comes back equal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.workflows.codec import (
    decode_outcome,
    decode_spec,
    decode_submission,
    dumps,
    encode_outcome,
    encode_spec,
    encode_submission,
    loads,
)
from hexgen_celery.workflows.definition import (
    Answer,
    Failure,
    LlmCall,
    NodeKind,
    NodeSpec,
    PartRef,
    SqlCall,
    Submission,
)

texts = st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, json_values, max_size=3)
parts = st.builds(PartRef, texts, st.integers(0, 10**6), st.sampled_from(["system", "user"]))
llm_calls = st.builds(
    LlmCall,
    parts=st.lists(parts, max_size=3).map(tuple),
    tail=texts,
    input_tokens=st.integers(0, 10**6),
    output_tokens=st.floats(0, 1e6),
    max_tokens=st.integers(1, 10**6),
    temperature=st.floats(0, 2),
    seed=st.none() | st.integers(),
    stop=st.lists(texts, max_size=2).map(tuple),
    response_format=st.none() | objects,
    metadata=st.dictionaries(texts, texts, max_size=3),
    forced_output_tokens=st.none() | st.integers(1, 1000),
)
sql_calls = st.builds(
    SqlCall,
    database=texts,
    sql=texts,
    op=st.sampled_from(["execute", "explain"]),
    arguments=objects,
    time_limit_seconds=st.none() | st.floats(0.1, 100),
)
after = st.lists(texts, max_size=3).map(tuple)
specs = st.one_of(
    st.builds(NodeSpec, texts, st.just(NodeKind.LLM), texts, texts, llm_calls, after),
    st.builds(NodeSpec, texts, st.just(NodeKind.SQL), texts, texts, sql_calls, after),
)
submissions = st.builds(
    Submission,
    workflow_id=texts,
    workflow=texts,
    question=texts,
    database=texts,
    slo_seconds=st.floats(0.1, 1e5),
    submitted_at=st.floats(0, 2e9),
    deadline=st.floats(0, 2e9),
    tenant=st.sampled_from(["default", "a"]),
    evidence=texts,
    options=objects,
)
outcomes = st.one_of(
    st.builds(Answer, rows_from=st.none() | texts, sql=texts, detail=objects),
    st.builds(Failure, stage=texts, cause=texts, last_sql=texts, detail=objects),
)


@given(specs)
def test_specs(spec: NodeSpec) -> None:
    assert decode_spec(encode_spec(spec)) == spec


@given(submissions)
def test_submissions(submission: Submission) -> None:
    assert decode_submission(encode_submission(submission)) == submission


@given(outcomes, st.booleans())
def test_outcomes(outcome: Answer | Failure, best_effort: bool) -> None:
    text = encode_outcome(outcome, best_effort=best_effort)
    assert decode_outcome(text) == (outcome, best_effort)


def test_defaults_are_left_out() -> None:
    spec = NodeSpec("a", NodeKind.SQL, "s", "t", SqlCall("db", "SELECT 1"))
    stored = json.loads(encode_spec(spec))
    assert set(stored) == {"id", "kind", "stage", "step", "call"}
    assert set(stored["call"]) == {"database", "sql"}


@pytest.mark.parametrize("text", ["Straße", "\ud800 alone", "a\\ud800", "😀", "\x00"])
def test_any_text_can_be_stored_as_utf8(text: str) -> None:
    stored = dumps({"text": text})
    assert loads(stored.encode("utf-8").decode("utf-8")) == {"text": text}
