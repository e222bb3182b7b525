"""What is in force for a scope, and putting something else in force."""

from __future__ import annotations

from typing import Any

from hexgen_celery.core.dispatch import DISPATCH
from hexgen_celery.live_tuning.scopes import TuningScope
from hexgen_celery.policies import PolicyChoice, PolicyStore
from hexgen_celery.settings import RouterSettings
from hexgen_celery.simulator import Choice


def incumbent(policies: PolicyStore, settings: RouterSettings, wanted: TuningScope) -> Choice:
    """The policy in force for `wanted`, with the α it has by default where none is named."""
    stored = policies.read()
    found = next((stored[name] for name in wanted.wider if name in stored), None)
    choice = found or PolicyChoice(settings.dispatch, settings.parameters)
    parameters = dict(choice.parameters)
    own = DISPATCH.entry(choice.dispatch).configure(parameters)
    if hasattr(own, "alpha"):
        parameters["alpha"] = own.alpha
    return Choice(choice.dispatch, parameters)


def put_in_force(policies: PolicyStore, wanted: TuningScope, chosen: dict[str, Any]) -> None:
    """Make `chosen` (`dispatch` and parameters) the policy of `wanted`."""
    parameters = dict(chosen)
    choice = PolicyChoice(str(parameters.pop("dispatch")), parameters)
    policies.set(choice, model=wanted.model, tenant=wanted.tenant)


def with_alpha(choice: Choice, alpha: Any) -> Choice:
    """`choice` with another weight."""
    return Choice(choice.name, {**choice.parameters, "alpha": alpha})


def plain(choice: Choice) -> dict[str, Any]:
    """As entries hold it."""
    return {"dispatch": choice.name, **choice.parameters}
