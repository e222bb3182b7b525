"""Assembling prompts from parts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.parts import MissingPart
from hexgen_celery.workflows.definition import LlmCall, PartRef
from workers.prompts import PromptAssembler, synthetic_text


class _Parts:
    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.asked: list[list[str]] = []

    def get(self, hashes: Sequence[str]) -> list[str]:
        self.asked.append(list(hashes))
        return [self.texts[name] for name in hashes]


def _call(parts: tuple[PartRef, ...], tail: str = "") -> LlmCall:
    return LlmCall(parts, tail, input_tokens=1, output_tokens=1, max_tokens=1)


def test_neighbours_with_one_role_become_one_message() -> None:
    parts = _Parts({"a": "rules\n", "b": "schema\n", "c": "hint\n"})
    call = _call(
        (PartRef("a", 2), PartRef("b", 2), PartRef("c", 2, role="user")), tail="the question"
    )
    assert PromptAssembler(parts).messages(call) == (
        ("system", "rules\nschema\n"),
        ("user", "hint\nthe question"),
    )
    assert parts.asked == [["a", "b", "c"]]


def test_a_prompt_without_parts_is_the_tail_alone() -> None:
    parts = _Parts({})
    assert PromptAssembler(parts).messages(_call((), "hello")) == (("user", "hello"),)
    assert parts.asked == []


def test_synthetic_parts_are_not_asked_for() -> None:
    parts = _Parts({"a": "rules\n"})
    call = _call((PartRef("a", 2), PartRef("syn:schema.db:3", 3)), tail="q")
    (_, system), _ = PromptAssembler(parts).messages(call)
    assert system == "rules\n" + synthetic_text("syn:schema.db:3")
    assert parts.asked == [["a"]]


@given(st.text("abcdefgh.:-", min_size=1, max_size=20), st.integers(0, 5000))
def test_synthetic_text_has_exactly_four_characters_a_token(key: str, tokens: int) -> None:
    assert len(synthetic_text(f"syn:{key}:{tokens}")) == 4 * tokens


def test_synthetic_texts_of_different_keys_differ_at_once() -> None:
    first, second = synthetic_text("syn:schema.a:100"), synthetic_text("syn:schema.b:100")
    assert first[:15] != second[:15]
    assert synthetic_text("syn:schema.a:200").startswith(first)


@pytest.mark.parametrize("name", ["syn:", "syn:x", "syn::4", "syn:x:-1", "syn:x:four"])
def test_a_malformed_synthetic_name_is_refused(name: str) -> None:
    with pytest.raises(MissingPart, match="not a synthetic part"):
        synthetic_text(name)
