"""Which dispatch policy decides for whom."""

from __future__ import annotations

import random

import pytest

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.policies import PolicyBook, PolicyChoice, scope
from hexgen_celery.settings import RouterSettings

STORED = {
    scope(): PolicyChoice("fastest").to_json(),
    scope("m"): PolicyChoice("random").to_json(),
    scope("", "t"): PolicyChoice("least-work").to_json(),
    scope("m", "t"): PolicyChoice("alpha", {"alpha": 0.4}).to_json(),
}


@pytest.mark.parametrize(
    ("model", "tenant", "name"),
    [
        ("m", "t", "alpha"),
        ("other", "t", "least-work"),
        ("m", "other", "random"),
        ("other", "other", "fastest"),
    ],
)
def test_the_narrowest_scope_decides(model: str, tenant: str, name: str) -> None:
    book = PolicyBook(RouterSettings(), random.Random(0))
    assert book.policy(STORED, model, tenant).name == name


def test_without_anything_stored_the_configuration_decides() -> None:
    book = PolicyBook(RouterSettings(dispatch="round-robin"), random.Random(0))
    assert book.policy({}, "m", "t").name == "round-robin"


def test_a_policy_keeps_its_state_until_it_is_changed() -> None:
    book = PolicyBook(RouterSettings(), random.Random(0))
    first = book.policy(STORED, "m", "t")
    assert book.policy(STORED, "m", "t") is first
    changed = {**STORED, scope("m", "t"): PolicyChoice("alpha", {"alpha": 0.1}).to_json()}
    assert book.policy(changed, "m", "t") is not first
    assert book.policy(STORED, "m", "t") is not first, "what was replaced is not kept"


@pytest.mark.parametrize(
    "text", ["no json", "[]", "{}", PolicyChoice("clairvoyant").to_json(),
             PolicyChoice("alpha", {"alpha": 7}).to_json()],
)  # fmt: skip
def test_what_cannot_be_built_is_passed_over(text: str) -> None:
    book = PolicyBook(RouterSettings(), random.Random(0))
    assert book.policy({scope(): text}, "m", "t").name == "alpha"


def test_a_wrong_configured_policy_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="clairvoyant"):
        PolicyBook(RouterSettings(dispatch="clairvoyant"), random.Random(0))
