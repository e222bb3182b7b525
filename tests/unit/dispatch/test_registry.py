"""The registry of named choices."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from hexgen_celery.core.registry import InvalidParameter, Registry, UnknownName


@dataclass(frozen=True)
class Size:
    litres: float = 1.0
    lid: bool = False
    holes: int = 0
    glaze: str | None = None

    def __post_init__(self) -> None:
        if self.litres <= 0:
            raise ValueError(f"litres must be positive, got {self.litres}")


def cups() -> Registry[str]:
    registry: Registry[str] = Registry("cup")

    @registry.register("mug", Size)
    def mug(size: Size, colour: str) -> str:
        """A mug."""
        return f"{colour} {size.litres}"

    return registry


def test_builds_with_context_and_parameters() -> None:
    assert cups().build("mug", "red", litres=2.0) == "red 2.0"
    assert cups().names() == ["mug"]
    assert cups().entry("mug").summary == "A mug."


def test_a_name_is_registered_once() -> None:
    registry = cups()
    with pytest.raises(ValueError, match="cup 'mug' is registered twice"):
        registry.register("mug")(str)


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(UnknownName, match="unknown cup 'jug'; choose one of: mug"):
        cups().build("jug", "red")
    with pytest.raises(InvalidParameter, match="mug has no parameter 'height'"):
        cups().build("mug", "red", height=2)
    with pytest.raises(InvalidParameter, match="litres must be positive, got 0"):
        cups().build("mug", "red", litres=0)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"litres": "2"}, "mug: litres must be a number, got '2'"),
        ({"litres": True}, "mug: litres must be a number, got True"),
        ({"lid": 1}, "mug: lid must be true or false, got 1"),
        ({"holes": 1.5}, "mug: holes must be a whole number, got 1.5"),
        ({"litres": float("nan")}, "mug: litres must be a number, got nan"),
        ({"litres": float("inf")}, "mug: litres must be a number, got inf"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(wrong: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(complaint)):
        cups().build("mug", "red", **wrong)


def test_a_whole_number_is_a_number_and_other_kinds_check_themselves() -> None:
    assert cups().build("mug", "red", litres=2, lid=True, glaze="blue") == "red 2"


def test_a_whole_number_may_come_as_a_float() -> None:
    holes = cups().entry("mug").configure({"holes": 2.0}).holes
    assert (holes, type(holes)) == (2, int)
