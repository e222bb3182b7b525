"""Which rows of the history are policies that came into force, and which of them hold still."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select

from hexgen_celery.store.models import AlphaChange

TUNER, OPERATOR = "tuner", "operator"


def came_into_force() -> ColumnElement[bool]:
    """Whether a row is a policy that was put in force, and not one that was merely weighed."""
    detail = AlphaChange.detail
    return or_(
        AlphaChange.source == OPERATOR,
        detail["moved"].as_boolean(),
        detail["reverted"].as_boolean(),
    )


def last_choices(*columns: Any) -> Select[Any]:
    """`columns` of the rows that came into force last, of each deployment and scope."""
    scope = (AlphaChange.deployment, AlphaChange.scope)
    times = select(*scope, func.max(AlphaChange.at).label("at"))
    last = times.where(came_into_force()).group_by(*scope).subquery()
    same = and_(
        AlphaChange.deployment == last.c.deployment,
        AlphaChange.scope == last.c.scope,
        AlphaChange.at == last.c.at,
    )
    return select(*columns).join(last, same).where(came_into_force())
