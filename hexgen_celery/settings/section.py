"""What every table of the configuration is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0)]
PositiveInt = Annotated[int, Field(gt=0)]
Tokens = Annotated[int, Field(gt=0, le=10_000_000)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]


def refuse_doubled(kind: str, names: list[str]) -> None:
    """Raise `ValueError` where a name of that kind is declared twice."""
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"{kind} {doubled[0]!r} is declared twice")


def refuse_unknown(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise `ValueError` where one of the names, in a list of that name, is none of the known."""
    known = sorted(set(known))
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise ValueError(f"{kind} names {unknown!r}, which is unknown; known: {', '.join(known)}")


class Section(BaseModel):
    """A table of the configuration; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
