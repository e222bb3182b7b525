"""What is wrong with a configuration, in words that lead to the line or variable to change."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from hexgen_celery.errors import InvalidSettings

PREFIX = "HEXGEN_"
DELIMITER = "__"
_UNKNOWN = "extra_forbidden"
_REFERENCE = "see docs/configuration.md for every setting"


def misspelt_variable(names: Iterable[str], settings: type[BaseModel]) -> InvalidSettings | None:
    """The first environment variable of `names` that looks like a setting and sets nothing.

    Other names that begin with `HEXGEN_` are none of our business.
    """
    sections = _sections(settings)
    flat = {
        f"{section}_{name}".upper(): f"{section}{DELIMITER}{name}".upper()
        for section, fields in sections.items()
        for name in fields
    }
    for variable in sorted(names):
        name = variable.upper().removeprefix(PREFIX)
        if name == variable.upper():
            continue
        section = name.partition(DELIMITER)[0].lower()
        if name in flat:
            return _misspelt(variable, f"write it as {PREFIX}{flat[name]}")
        if DELIMITER in name and section not in settings.model_fields:
            return _misspelt(variable, f"{_guess_variable(name, sections)}{_REFERENCE}")
    return None


def invalid_settings(
    error: ValidationError, settings: type[BaseModel], environment: Iterable[str] = ()
) -> InvalidSettings:
    """The most telling problem: an unknown name before what is missing because of it.

    Where one of the variables named in `environment` made it, the hint says which: the
    configuration file may be blameless.
    """
    problems = sorted(error.errors(), key=lambda problem: problem["type"] != _UNKNOWN)
    location = [str(part) for part in problems[0]["loc"]]
    place = ".".join(location) or "configuration"
    source = _source(location, environment)
    if problems[0]["type"] != _UNKNOWN:
        message = problems[0]["msg"].removeprefix("Value error, ")
        return InvalidSettings(f"{place}: {message}", field=place, hint=f"{source}{_REFERENCE}")
    hint = f"{source}{_guess(location[-1], _names(settings))}{_REFERENCE}"
    return InvalidSettings(f"unknown setting {place}", field=place, hint=hint)


def _source(location: list[str], environment: Iterable[str]) -> str:
    variable = PREFIX + DELIMITER.join(location).upper()
    return next((f"{name} sets it; " for name in environment if name.upper() == variable), "")


def _misspelt(variable: str, hint: str) -> InvalidSettings:
    return InvalidSettings(f"{variable} sets nothing", field=variable, hint=hint)


def _guess(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}? " if near else ""


def _guess_variable(name: str, sections: Iterable[str]) -> str:
    """The variable with the section that was probably meant, whatever stands behind it."""
    section, _, rest = name.partition(DELIMITER)
    near = difflib.get_close_matches(section.lower(), list(sections), n=1)
    return f"did you mean {PREFIX}{near[0].upper()}{DELIMITER}{rest}? " if near else ""


def _sections(settings: type[BaseModel]) -> Mapping[str, Mapping[str, Any]]:
    return {
        name: field.annotation.model_fields
        for name, field in settings.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    }


def _names(model: type[BaseModel]) -> set[str]:
    """The names of all settings below `model`, those of tables in lists included."""
    names = set(model.model_fields)
    for field in model.model_fields.values():
        annotation = field.annotation
        for kind in (annotation, *getattr(annotation, "__args__", ())):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                names |= _names(kind)
    return names
