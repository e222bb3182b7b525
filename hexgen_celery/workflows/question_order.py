"""Whether a question asks for its rows in an order, so that results in another order differ."""

from __future__ import annotations

import re

_ORDER = re.compile(
    r"\b(?:order(?:ed|ing)?|sort(?:ed|ing)?|rank(?:ed|ing)?|arranged?)\b.{0,60}?"
    r"\b(?:by|from|in|according|based|on)\b"
    r"|\b(?:ascending|descending|alphabetical(?:ly)?|chronological(?:ly)?)\b"
    r"|\bfrom (?:the )?(?:highest|lowest|largest|smallest|oldest|youngest|newest|earliest|latest|"
    r"longest|shortest|most|least)\b.{0,40}? to\b",
    re.IGNORECASE,
)


def asks_for_order(question: str) -> bool:
    """Whether the question's words ask for an order of the rows.

    A question for the first or the best one asks for a row, not for an order.
    """
    return _ORDER.search(question) is not None
