"""Values that every database takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.store.values import clean, clean_text, count, moment

_TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=30)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES)
def test_what_is_clean_can_be_stored_and_stays_as_it_is(value: Any) -> None:
    cleaned = clean(value)
    text = json.dumps(cleaned, allow_nan=False, ensure_ascii=False)
    assert "\0" not in text.encode("utf-8").decode("utf-8")
    assert clean(cleaned) == cleaned


def test_ordinary_values_are_left_alone() -> None:
    value = {"text": "Straße 😀", "number": 1.5, "list": [1, None, True]}
    assert clean(value) == value


def test_what_cannot_be_stored_is_replaced() -> None:
    assert clean_text("a\0b\ud800c") == "a�b?c"
    assert clean({"x": (float("nan"), float("inf"), -1.0)}) == {"x": [None, None, -1.0]}


@pytest.mark.parametrize(
    ("value", "counted"),
    [
        (7, 7),
        (7.0, 7),
        (7.5, -1),
        ("7", -1),
        (None, -1),
        (True, -1),
        (2**40, 2**31 - 1),
        (-(2**40), -(2**31) + 1),
    ],
)
def test_counts_fit_their_column(value: object, counted: int) -> None:
    assert count(value, -1) == counted


@pytest.mark.parametrize(
    ("value", "at"), [(1, 1.0), (1.5, 1.5), (None, None), ("1", None), (float("nan"), None)]
)
def test_moments_are_finite_numbers(value: object, at: float | None) -> None:
    assert moment(value) == at
