"""Profiles, fleets and prices from TOML files; a bare name means a shipped one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from hexgen_celery.core.fleet import Fleet, FleetInstance
from hexgen_celery.core.profiles import Profile, Provenance
from hexgen_celery.errors import InvalidProfile

PROVENANCE_KINDS = ("measured", "modelled")
TEXTS = ("name", "gpu", "model")
INTEGERS = ("gpus", "kv_tokens", "max_sequences", "max_model_len", "max_batched_tokens")
NUMBERS = tuple(
    field.name for field in fields(Profile) if field.name not in (*TEXTS, "gpus", "provenance")
)
OPTIONAL = ("max_batched_tokens", "block_tokens", "prefill_base")


def shipped_profiles() -> Path:
    """The directory of the profiles that ship with the project, installed or in its sources."""
    package = Path(__file__).parent
    installed = package / "_profiles"
    return installed if installed.is_dir() else package.parent / "profiles"


def load_profile(name: str | Path, directory: Path | None = None) -> Profile:
    """Read a profile by path or by name (in `directory`, then among the shipped ones).

    Raises:
        InvalidProfile: if there is none, or a field is missing, unknown or impossible.
    """
    path = _locate(name, directory, "profile", "")
    return profile_from(_read(path), str(path))


def load_fleet(name: str | Path) -> Fleet:
    """Read a cluster file by path or shipped name; its profiles may lie beside it or ship too.

    Raises:
        InvalidProfile: if it is missing or wrong; the message names file and field.
    """
    path = _locate(name, None, "cluster", "clusters")
    document = _read(path)
    _refuse_unknown(document, ("name", "model", "instances"), str(path))
    rows = document.get("instances")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _invalid(path, "instances", "must be a list of tables", "write [[instances]] tables")
    instances = tuple(_fleet_instance(row, number, path) for number, row in enumerate(rows))
    try:
        return Fleet(
            _text(document, "name", str(path)), _text(document, "model", str(path)), instances
        )
    except ValueError as error:
        raise _invalid(path, "instances", str(error), "correct the cluster file") from error


def load_prices(path: str | Path | None = None) -> dict[str, float]:
    """Price of one GPU-hour by GPU type, in the file's own currency.

    Raises:
        InvalidProfile: if the file is missing or a price is not a positive number.
    """
    location = Path(path) if path else shipped_profiles() / "prices.toml"
    rows = _read(location).get("gpu_hour")
    if not isinstance(rows, dict) or not rows:
        raise _invalid(location, "gpu_hour", "is missing", "add a [gpu_hour] table of prices")
    for gpu, price in rows.items():
        if not _is_number(price) or price <= 0:
            hint = "give the price of one GPU-hour"
            raise _invalid(location, f"gpu_hour.{gpu}", f"must be above 0, got {price!r}", hint)
    return {gpu: float(price) for gpu, price in rows.items()}


def profile_from(document: Mapping[str, Any], source: str) -> Profile:
    """Build a profile from a parsed document; `source` names it in errors.

    A number is a table of `value`, `kind` (measured or modelled) and `source`.

    Raises:
        InvalidProfile: naming the field at fault.
    """
    _refuse_unknown(document, (*TEXTS, "gpus", *NUMBERS), source)
    values: dict[str, Any] = {name: _text(document, name, source) for name in TEXTS}
    values["gpus"] = _number(document.get("gpus"), "gpus", source)
    provenance = []
    for name in NUMBERS:
        if name in OPTIONAL and name not in document:
            continue
        values[name], origin = _sourced_number(document.get(name), name, source)
        provenance.append((name, origin))
    try:
        return Profile(**values, provenance=tuple(provenance))
    except ValueError as error:
        field = str(error).partition(" ")[0]
        raise _invalid(source, field, str(error), "correct the number") from error


def _locate(name: str | Path, directory: Path | None, kind: str, folder: str) -> Path:
    given = Path(name)
    if given.suffix == ".toml" and given.is_file():
        return given
    shipped = shipped_profiles() / folder
    for place in (directory, shipped):
        if place and (path := place / f"{given.name.removesuffix('.toml')}.toml").is_file():
            return path
    known = ", ".join(sorted(p.stem for p in shipped.glob("*.toml") if p.stem != "prices"))
    raise InvalidProfile(
        f"there is no {kind} {str(name)!r}",
        field=kind,
        hint=f"give the path of a TOML file or one of: {known}",
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        hint = "check the path and its permissions"
        raise InvalidProfile(f"cannot read {path}: {error.strerror}", hint=hint) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidProfile(f"{path} is not TOML: {error}", hint="correct the file") from error


def _fleet_instance(row: Mapping[str, Any], number: int, path: Path) -> FleetInstance:
    where = f"{path}, instances[{number}]"
    _refuse_unknown(row, ("name", "pool", "profile"), where)
    name, pool, profile = (_text(row, field, where) for field in ("name", "pool", "profile"))
    return FleetInstance(name, pool, load_profile(profile, path.parent))


def _refuse_unknown(document: Mapping[str, Any], known: tuple[str, ...], source: str) -> None:
    for name in document:
        if name not in known:
            raise _invalid(source, name, "is not known", f"use only: {', '.join(known)}")


def _text(document: Mapping[str, Any], name: str, source: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise _invalid(source, name, f"must be a text, got {value!r}", f'add {name} = "…"')
    return value


def _sourced_number(value: object, name: str, source: str) -> tuple[float, Provenance]:
    if not isinstance(value, dict):
        hint = f'write {name} = {{ value = …, kind = "measured" or "modelled", source = "…" }}'
        raise _invalid(source, name, f"must be a table, got {value!r}", hint)
    kind, origin = value.get("kind"), value.get("source")
    if kind not in PROVENANCE_KINDS:
        hint = "say whether the number was measured or modelled"
        raise _invalid(source, f"{name}.kind", f"must be one of {PROVENANCE_KINDS}", hint)
    if not isinstance(origin, str) or not origin:
        hint = "say when and how it was measured, or what it was modelled from"
        raise _invalid(source, f"{name}.source", "must be a text", hint)
    number = _number(value.get("value"), name, source)
    return number, Provenance(str(kind), origin)


def _number(value: object, name: str, source: str) -> float:
    whole = name in INTEGERS or name == "block_tokens"
    if not _is_number(value) or (whole and not isinstance(value, int)):
        kind = "a whole number" if whole else "a number"
        raise _invalid(source, name, f"must be {kind}, got {value!r}", f"give {name} a value")
    return value  # type: ignore[return-value]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _invalid(source: str | Path, field: str, message: str, hint: str) -> InvalidProfile:
    return InvalidProfile(f"{source}: {field} {message}", field=field, hint=hint)
