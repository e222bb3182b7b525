"""Which SLO a question has: its own seconds, or a class of its tenant. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hexgen_celery.errors import InvalidSubmission
from hexgen_celery.settings import DEFAULT_TENANT, Settings, SloClassSettings


@dataclass(frozen=True, slots=True)
class ResolvedSlo:
    """Seconds, and the class they come from ("" where they were given as seconds)."""

    seconds: float
    slo_class: str = ""


def resolve_slo(
    settings: Settings, tenant: str, *, slo_class: str, seconds: float | None
) -> ResolvedSlo:
    """The SLO of a question: the class it names, else its seconds, else its tenant's first class.

    Where tenants are declared, others than those and the default one are refused: a limit that a
    misspelt name escapes is none.

    Raises:
        InvalidSubmission: tenant or class are unknown, or both class and seconds are given.
    """
    classes = _classes(settings, tenant)
    if slo_class and seconds is not None:
        raise InvalidSubmission(
            "slo_class and slo_seconds are both given", field="slo_class", hint="give one of them"
        )
    if slo_class:
        return _named(slo_class, tenant, classes)
    if seconds is None and classes:
        return ResolvedSlo(classes[0].seconds, classes[0].name)
    return ResolvedSlo(settings.deadline.default_slo_seconds if seconds is None else seconds)


def _classes(settings: Settings, tenant: str) -> tuple[SloClassSettings, ...]:
    declared = {one.name: one.classes for one in settings.tenants}
    if tenant not in declared and declared and tenant != DEFAULT_TENANT:
        raise InvalidSubmission(
            f"unknown tenant {tenant!r}",
            field="tenant",
            hint=f"declared: {', '.join(declared)}",
        )
    return declared.get(tenant, ())


def _named(name: str, tenant: str, classes: tuple[SloClassSettings, ...]) -> ResolvedSlo:
    for one in classes:
        if one.name == name:
            return ResolvedSlo(one.seconds, one.name)
    known = ", ".join(f"{one.name} ({one.seconds:g} s)" for one in classes) or "none"
    raise InvalidSubmission(
        f"tenant {tenant!r} has no SLO class {name!r}",
        field="slo_class",
        hint=f"its classes: {known}; or give slo_seconds",
    )
