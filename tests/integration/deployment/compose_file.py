"""docker-compose.yml as values: read, with variables filled in as Compose does it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[3]
COMPOSE = PROJECT / "docker-compose.yml"
_VARIABLE = re.compile(r"\$\$|\$\{(\w+)(?:(:-|:\?)([^}]*))?\}")


class VariableMissing(Exception):
    """Raised for a variable that the file requires and nobody set."""


def services(variables: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Every service by name, its variables filled in."""
    read = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    filled: dict[str, dict[str, Any]] = _filled(read["services"], variables)
    return filled


def volumes() -> set[str]:
    """The declared volumes."""
    return set(yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["volumes"])


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, variables) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, variables) for each in value]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        given = variables.get(match[1], "")
        if not given and match[2] == ":?":
            raise VariableMissing(match[3])
        return given or (match[3] or "" if match[2] == ":-" else "")

    return _VARIABLE.sub(fill, value)
