"""SLO classes and tenants of submissions."""

from __future__ import annotations

from typing import Any

import pytest

from hexgen_celery.errors import InvalidSubmission
from hexgen_celery.settings import Settings, SloClassSettings, TenantSettings
from hexgen_celery.submission import validate

ACME = TenantSettings(
    name="acme",
    max_in_flight=2,
    classes=(
        SloClassSettings(name="interactive", seconds=20),
        SloClassSettings(name="relaxed", seconds=90),
    ),
)
SETTINGS = Settings(tenants=(ACME, TenantSettings(name="plain")))


class NoDatabases:
    def names(self) -> list[str]:
        return []


def _submission(settings: Settings = SETTINGS, **fields: Any) -> Any:
    payload = {"question": "hi", "workflow": "chat", **fields}
    return validate(payload, settings, NoDatabases(), received_at=1_750_000_000.0)


@pytest.mark.parametrize(
    ("fields", "seconds", "slo_class"),
    [
        ({"tenant": "acme", "slo_class": "relaxed"}, 90, "relaxed"),
        ({"tenant": "acme"}, 20, "interactive"),
        ({"tenant": "acme", "slo_seconds": 7}, 7, ""),
        ({"tenant": "plain"}, 60, ""),
        ({}, 60, ""),
    ],
)
def test_the_slo_is_the_class_or_the_seconds_or_the_first_class(
    fields: dict[str, Any], seconds: float, slo_class: str
) -> None:
    submission = _submission(**fields)
    assert (submission.slo_seconds, submission.slo_class) == (seconds, slo_class)
    assert submission.deadline == submission.submitted_at + seconds


@pytest.mark.parametrize(
    ("fields", "field", "hint"),
    [
        ({"tenant": "acme", "slo_class": "fast"}, "slo_class", "interactive (20 s)"),
        ({"tenant": "plain", "slo_class": "fast"}, "slo_class", "none"),
        ({"tenant": "acne"}, "tenant", "acme"),
        ({"tenant": "acme", "slo_class": "relaxed", "slo_seconds": 5}, "slo_class", "one of them"),
        ({"tenant": "acme", "slo_class": 3}, "slo_class", "text"),
    ],
)
def test_a_wrong_class_or_tenant_is_named(fields: dict[str, Any], field: str, hint: str) -> None:
    with pytest.raises(InvalidSubmission) as refused:
        _submission(**fields)
    assert refused.value.field == field
    assert hint in refused.value.hint


def test_any_tenant_may_ask_where_none_is_declared() -> None:
    assert _submission(Settings(), tenant="anybody").tenant == "anybody"


@pytest.mark.parametrize(
    "tenants",
    [
        ({"name": "a"}, {"name": "a"}),
        ({"name": "a", "classes": [{"name": "x", "seconds": 1}, {"name": "x", "seconds": 2}]},),
    ],
)
def test_what_is_declared_twice_is_refused(tenants: tuple[dict[str, Any], ...]) -> None:
    with pytest.raises(ValueError, match="declared twice"):
        Settings(tenants=tenants)  # type: ignore[arg-type]
