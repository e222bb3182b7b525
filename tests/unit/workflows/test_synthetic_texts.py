"""Texts of an exact number of tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.workflows.synthetic import WORDS, text_of_tokens


@given(st.text(max_size=20), st.integers(0, 2000))
def test_a_text_is_as_many_words_as_tokens_asked_for(seed: str, tokens: int) -> None:
    text = text_of_tokens(seed, tokens)
    assert len(text) == 4 * tokens
    assert text.split() == [word for word in text.split(" ") if word][:tokens]
    assert set(text.split()) <= set(WORDS)
    assert len(text.split()) == tokens


@given(st.text(max_size=20), st.integers(0, 300), st.integers(0, 300))
def test_a_shorter_text_begins_a_longer_one(seed: str, short: int, more: int) -> None:
    assert text_of_tokens(seed, short + more).startswith(text_of_tokens(seed, short))


def test_texts_of_different_seeds_differ_within_a_few_words() -> None:
    beginnings = {text_of_tokens(f"seed {number}", 8) for number in range(2000)}
    assert len(beginnings) == 2000


def test_the_words_are_all_different() -> None:
    assert len(set(WORDS)) == len(WORDS) == 64
