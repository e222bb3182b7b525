"""Keywords by rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.keywords import MAX_KEYWORDS, rule_keywords


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Who came to "Women\'s Soccer"?', ["Women's Soccer"]),
        ("Members from Fresno County with grade 'K-9' only", ["K-9", "Fresno County", "grade"]),
        ("Is Bank of England open?", ["Bank of England", "open"]),
        ("What did The Big Lebowski earn", ["Big Lebowski", "earn"]),
        ("the eligible free rate", ["eligible free", "free rate", "eligible", "free", "rate"]),
        ("publisher_name = “Marvel Comics”", ["Marvel Comics", "publisher", "Marvel", "Comics"]),
        ("1999 12 5", []),
        ("", []),
    ],
)
def test_the_telling_words_come_first(text: str, expected: list[str]) -> None:
    found = rule_keywords(text)
    places = [found.index(keyword) for keyword in expected]
    assert places == sorted(places)
    assert bool(found) == bool(expected)


def test_question_words_are_no_keywords() -> None:
    found = rule_keywords("How many of the students were there, and who are they?")
    assert found == ("students",)


def test_the_evidence_counts_too() -> None:
    assert "Merged" in rule_keywords("How many schools?", "merged refers to StatusType = 'Merged'")


def test_empty_quotes_are_no_keyword() -> None:
    assert rule_keywords("\" \" ' ' “ ”") == ()


@given(st.lists(st.text(max_size=200), max_size=3))
def test_any_text_gives_a_bounded_list(texts: list[str]) -> None:
    found = rule_keywords(*texts)
    assert len(found) <= MAX_KEYWORDS
    assert all(keyword.strip() for keyword in found)
    assert len(set(found)) == len(found)


def test_long_texts_are_read_in_no_time() -> None:
    assert len(rule_keywords("A'" * 50_000 + "(" * 50_000)) <= MAX_KEYWORDS
