"""Modules that the settings name: stages, workflows and policies written for a deployment.

The package does not depend on them, so they are imported by name. They are found where Python finds
modules and, after that, in the working directory, as Celery does it.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from types import ModuleType

from hexgen_celery.errors import InvalidSettings

_registered: list[str] = []


def import_named(name: str, field: str, hint: str) -> ModuleType:
    """The module `name`, which the setting `field` names.

    Raises:
        InvalidSettings: it cannot be imported.
    """
    place = os.getcwd()
    if place not in sys.path:
        # Last, so that a file that happens to lie here hides no module.
        sys.path.append(place)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InvalidSettings(
            f"{field}: {name!r} cannot be imported: {error}", field=field, hint=hint
        ) from error


def register_policies(names: Iterable[str]) -> None:
    """Import modules whose policies register themselves; again changes nothing.

    Raises:
        InvalidSettings: one cannot be imported, or registers a name that another policy has.
    """
    field = "policy_modules"
    for name in names:
        try:
            import_named(name, field, "docs/writing-a-policy.md shows one")
        except ValueError as error:
            raise InvalidSettings(
                f"{field}: {name!r}: {error}", field=field, hint="give the policy another name"
            ) from error
        if name not in _registered:
            _registered.append(name)


def registered_modules() -> tuple[str, ...]:
    """The policy modules of this process, for processes that it starts."""
    return tuple(_registered)
