"""What an emulated instance says, and what it takes a request for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.core.prefix import PrefixPart, prefix_tokens
from hexgen_celery.errors import InvalidSettings
from workers.emulation.answers import AnswerPlanner, AnswerSource
from workers.emulation.api_error import ApiError
from workers.emulation.faults import FaultInjector, FaultPlan
from workers.emulation.inference import InferenceRequest, parse_request
from workers.emulation.replay import ReplayRecord, ReplayStore
from workers.emulation.tokens import count_tokens, declared_prefix, filler, hashed_prefix

LINK = ("superhero:7", "schema_linking", "link")


def _parsed(**fields: Any) -> InferenceRequest:
    messages = [{"role": "system", "content": "s" * 40}, {"role": "user", "content": "u" * 2}]
    return parse_request(
        json.dumps({"model": "m", "messages": messages} | fields).encode(), chat=True
    )


def _planner(store: ReplayStore | None = None, limit: int = 1000) -> AnswerPlanner:
    return AnswerPlanner(store or ReplayStore(), max_model_len=limit, filler_tokens=16)


def _store(**completions: str) -> ReplayStore:
    store = ReplayStore()
    for index, completion in completions.items():
        store.add(LINK, index.removeprefix("i").replace("_", "."), ReplayRecord(completion))
    return store


def _metadata(index: str = "1", **more: str) -> dict[str, str]:
    question, stage, step = LINK
    return {"question": question, "stage": stage, "step": step, "index": index, **more}


def test_a_request_is_counted_by_its_characters() -> None:
    assert _parsed().prompt_tokens == 11
    assert parse_request(b'{"prompt": "12345"}', chat=False).prompt_tokens == 2


def test_content_parts_are_read_as_text() -> None:
    request = _parsed(messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])
    assert request.texts == ("hi",)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"n": 3}, "n"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"priority": "high"}, "priority"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": "x"}, "metadata"),
        ({"messages": [{"role": "user", "content": ["hi"]}]}, "messages"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a", 5]}, "stop"),
        ({"stream_options": [1]}, "stream_options"),
    ],
)
def test_a_bad_field_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        _parsed(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize("raw", [b"{", b"[]"])
def test_a_body_that_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse_request(raw, chat=True)
    assert caught.value.status == 400


def test_a_completion_needs_one_text() -> None:
    with pytest.raises(ApiError) as caught:
        parse_request(b'{"prompt": [1, 2]}', chat=False)
    assert caught.value.param == "prompt"


def test_filler_says_what_it_is_and_has_the_default_length() -> None:
    answer = _planner().plan(_parsed())
    assert answer.source is AnswerSource.FILLER
    assert "emulated filler" in answer.text
    assert (answer.output_tokens, len(answer.text)) == (16, 64)
    assert answer.finish_reason == "stop"


def test_a_forced_length_is_exact() -> None:
    answer = _planner().plan(_parsed(max_tokens=33, min_tokens=33, ignore_eos=True))
    assert (answer.output_tokens, len(answer.text), answer.finish_reason) == (33, 132, "length")


def test_max_tokens_bounds_filler_and_replay() -> None:
    assert _planner().plan(_parsed(max_tokens=5)).output_tokens == 5
    answer = _planner(_store(i1="x" * 100)).plan(_parsed(max_tokens=5, metadata=_metadata()))
    assert (answer.text, answer.output_tokens, answer.finish_reason) == ("x" * 20, 5, "length")


def test_max_completion_tokens_is_the_same_limit() -> None:
    assert _planner().plan(_parsed(max_completion_tokens=3)).output_tokens == 3


def test_a_recorded_answer_is_given_whole() -> None:
    answer = _planner(_store(i1="SELECT 1")).plan(_parsed(metadata=_metadata()))
    assert answer.source is AnswerSource.REPLAY
    assert (answer.text, answer.output_tokens, answer.finish_reason) == ("SELECT 1", 2, "stop")


def test_recorded_token_counts_outrank_the_text() -> None:
    store = ReplayStore()
    store.add(LINK, "1", ReplayRecord("SELECT 1", input_tokens=500, output_tokens=90))
    answer = _planner(store).plan(_parsed(metadata=_metadata()))
    assert (answer.input_tokens, answer.output_tokens) == (500, 90)


def test_declared_input_tokens_outrank_the_text() -> None:
    assert _planner().plan(_parsed(metadata={"input_tokens": "77"})).input_tokens == 77
    assert _planner().plan(_parsed(metadata={"input_tokens": "x"})).input_tokens == 11


def test_a_stop_text_ends_a_recorded_answer() -> None:
    store = _store(i1="SELECT 1; -- more")
    answer = _planner(store).plan(_parsed(stop=[";"], metadata=_metadata()))
    assert answer.text == "SELECT 1"
    assert _planner(store).plan(_parsed(stop="--", metadata=_metadata())).text == "SELECT 1; "


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"max_tokens": 990}, "max_tokens"), ({"metadata": {"input_tokens": "1000"}}, "input_tokens")],
)
def test_what_does_not_fit_the_context_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        _planner().plan(_parsed(**fields))
    assert (caught.value.status, caught.value.param) == (400, param)
    assert "maximum context length is 1000" in caught.value.message


def test_replay_falls_back_to_the_lowest_index() -> None:
    store = _store(i10="ten", i9="nine", i2_1="two-one")
    assert store.find(_metadata("10")) == ReplayRecord("ten")
    assert store.find(_metadata("3")) == ReplayRecord("two-one")
    assert store.find(_metadata("3") | {"step": "other"}) is None
    assert store.find({}) is None


def test_replay_is_read_from_files_and_directories(tmp_path: Path) -> None:
    question, stage, step = LINK
    record = {"question": question, "stage": stage, "step": step, "completion": "x"}
    for number in (1, 2):
        line = json.dumps(record | {"index": number, "output_tokens": number})
        (tmp_path / f"{number}.jsonl").write_text(f"\n{line}\n")
    store = ReplayStore.load([tmp_path, tmp_path / "1.jsonl"])
    assert len(store) == 2
    assert store.find(_metadata("2")) == ReplayRecord("x", None, 2)


@pytest.mark.parametrize("line", ["nonsense", "{}", "[1]", '{"question": 1}'])
def test_a_bad_record_is_named_by_file_and_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text(f"\n{line}\n")
    with pytest.raises(InvalidSettings, match=r"r\.jsonl:2"):
        ReplayStore.load([file])


def test_a_completion_must_be_text(tmp_path: Path) -> None:
    question, stage, step = LINK
    entry = {"question": question, "stage": stage, "step": step, "index": "1", "completion": 5}
    file = tmp_path / "r.jsonl"
    file.write_text(json.dumps(entry))
    with pytest.raises(InvalidSettings):
        ReplayStore.load([file])


def test_a_missing_replay_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="none"):
        ReplayStore.load([tmp_path / "none"])


@given(tokens=st.integers(0, 500))
def test_filler_has_exactly_the_tokens_asked_for(tokens: int) -> None:
    assert count_tokens(len(filler(tokens))) == tokens


def test_declared_parts_may_hold_colons() -> None:
    parts = declared_prefix("syn:template.link:120:120,abc:30", 1000)
    assert parts == (PrefixPart("syn:template.link:120", 120), PrefixPart("abc", 30))


@given(
    sizes=st.lists(st.integers(0, 300), max_size=6),
    input_tokens=st.integers(1, 600),
)
def test_declared_parts_never_outgrow_the_prompt(sizes: list[int], input_tokens: int) -> None:
    declaration = ",".join(f"k{number}:{size}" for number, size in enumerate(sizes))
    prefix = declared_prefix(declaration, input_tokens)
    assert prefix_tokens(prefix) == min(sum(sizes), input_tokens)


def test_a_bad_declaration_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        _planner().plan(_parsed(metadata={"prefix": "abc:many"}))
    assert caught.value.param == "metadata"


def test_undeclared_prompts_share_as_far_as_their_texts_agree() -> None:
    shared = "s" * 1000
    one, other = hashed_prefix((shared, "a" * 1000)), hashed_prefix((shared, "b" * 1000))
    agreeing = [a for a, b in zip(one, other, strict=True) if a == b]
    assert one[: len(agreeing)] == tuple(agreeing)
    assert prefix_tokens(tuple(agreeing)) == 192
    assert prefix_tokens(one) <= count_tokens(2001)


def test_faults_come_in_a_repeatable_order() -> None:
    def outcomes() -> list[bool]:
        faults = FaultInjector(FaultPlan(cut_rate=0.5, seed=3))
        return [faults.cuts() for _ in range(50)]

    assert outcomes() == outcomes()
    assert {True, False} == set(outcomes())
    assert not FaultInjector(FaultPlan()).cuts()


def test_errors_have_vllms_shape() -> None:
    error = ApiError(404, "The model `x` does not exist.", "model", retry_after=1.5)
    assert error.body()["error"] == {
        "message": "The model `x` does not exist.",
        "type": "NotFoundError",
        "param": "model",
        "code": 404,
    }
    assert error.headers() == {"Retry-After": "1.5"}
