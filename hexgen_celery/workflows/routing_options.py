"""Options of a submission that say where its requests may run, whatever its workflow. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hexgen_celery.errors import InvalidSubmission


class RoutingOptions(BaseModel):
    """`model`: only instances that serve it (empty: any). `tags`: only pools that have them all."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: Annotated[str, Field(max_length=200)] = ""
    tags: Annotated[tuple[str, ...], Field(max_length=20)] = ()


NAMES = frozenset(RoutingOptions.model_fields)
ANYWHERE = RoutingOptions()


def routing_options(options: Mapping[str, Any]) -> RoutingOptions:
    """Those of a submission's options that concern routing.

    Raises:
        InvalidSubmission: one of them is of the wrong kind.
    """
    if NAMES.isdisjoint(options):
        return ANYWHERE
    try:
        return RoutingOptions.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidSubmission(
            f"option {name!r}: {first['msg']}",
            field=name,
            hint="model is the name of a served model, tags a list of tags of pools",
        ) from error


def without_routing(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are the workflow's own."""
    return {name: value for name, value in options.items() if name not in NAMES}
