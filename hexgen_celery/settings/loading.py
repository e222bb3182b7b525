"""Reads the configuration from its TOML file and the environment."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsError

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.named_modules import register_policies
from hexgen_celery.settings.problems import invalid_settings, misspelt_variable
from hexgen_celery.settings.root import Settings


def load_settings(path: Path | str | None = None) -> Settings:
    """Read the configuration from `path`, else `HEXGEN_CONFIG`, else `hexgen.toml`, else defaults.

    The policies of `policy_modules` are registered, so that whoever reads it knows them.

    Raises:
        InvalidSettings: the file is missing or unreadable, a value is unknown or impossible, or a
            policy module cannot be imported.
    """
    settings = _validated(_read_toml(_config_path(path)))
    register_policies(settings.policy_modules)
    return settings


def _config_path(path: Path | str | None) -> Path | None:
    named = path or os.environ.get("HEXGEN_CONFIG")
    if named:
        return Path(named)
    default = Path("hexgen.toml")
    return default if default.is_file() else None


def _read_toml(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettings(
            f"cannot read the configuration {path}: {error.strerror}",
            field="config",
            hint="give an existing TOML file with --config or HEXGEN_CONFIG",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettings(
            f"{path} is not valid TOML: {error}", field="config", hint="mend the line it names"
        ) from error


def _validated(values: dict[str, Any]) -> Settings:
    misspelt = misspelt_variable(os.environ, Settings)
    if misspelt is not None:
        raise misspelt
    try:
        return Settings(**values)
    except ValidationError as error:
        raise invalid_settings(error, Settings, os.environ) from error
    except SettingsError as error:
        raise InvalidSettings(
            f"a setting in the environment cannot be read: {error}",
            hint="write lists and tables as JSON, or put them into the configuration file",
        ) from error
