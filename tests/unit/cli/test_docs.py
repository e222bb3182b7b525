"""The documentation names every setting with its default, every command and every option."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from hexgen_celery.cli.root import COMMANDS
from hexgen_celery.settings import (
    InstanceSettings,
    PoolSettings,
    Settings,
    SloClassSettings,
    TenantSettings,
    VllmSettings,
)

DOCS = Path(__file__).resolve().parents[3] / "docs"
ROW = re.compile(r"^\| `(?P<name>[\w.]+)` \| (?P<default>[^|]+) \|", re.MULTILINE)


def _fields() -> Iterator[tuple[str, Any]]:
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            for key, value in section.model_fields.items():
                yield f"{name}.{key}", value.get_default(call_default_factory=True)
        elif name not in ("pools", "tenants"):
            yield name, field.default
    tables: dict[str, type[BaseModel]] = {
        "pools": PoolSettings,
        "instances": InstanceSettings,
        "vllm": VllmSettings,
        "tenants": TenantSettings,
        "classes": SloClassSettings,
    }
    for prefix, model in tables.items():
        for key, value in model.model_fields.items():
            default = value.get_default(call_default_factory=True)
            yield f"{prefix}.{key}", PydanticUndefined if value.is_required() else default


def _documented() -> dict[str, str]:
    text = (DOCS / "configuration.md").read_text(encoding="utf-8")
    return {row["name"]: row["default"].strip() for row in ROW.finditer(text)}


def test_every_setting_is_documented_and_no_other() -> None:
    assert set(_documented()) == {name for name, _ in _fields()}


@pytest.mark.parametrize(("name", "default"), list(_fields()))
def test_documented_defaults_are_true(name: str, default: Any) -> None:
    shown = _documented()[name]
    if default in (None, (), {}, PydanticUndefined):
        assert not shown.startswith("`"), f"{name} has no default, but docs say {shown}"
        return
    plain = default.get_secret_value() if isinstance(default, SecretStr) else default
    if isinstance(plain, bool):
        plain = str(plain).lower()
    if isinstance(plain, float):
        plain = f"{plain:.12g}"
    assert shown == f"`{plain}`"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_documented(name: str) -> None:
    assert f"`hexgen {name}" in (DOCS / "cli.md").read_text(encoding="utf-8")


OWN = (
    "ask",
    "batch",
    "bird",
    "cancel",
    "db",
    "demo",
    "doctor",
    "flower",
    "prompts",
    "queues",
    "status",
    "top",
    "up",
)


@pytest.mark.parametrize("name", OWN)
def test_every_option_is_documented(name: str) -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    for option in _options(COMMANDS[name].load()):
        assert option in text, f"hexgen {name} {option}"


def _options(command: click.Command) -> Iterator[str]:
    if isinstance(command, click.Group):
        for child in command.commands.values():
            yield from _options(child)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield max(parameter.opts, key=len)
