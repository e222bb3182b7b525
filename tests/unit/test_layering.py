"""Dependencies point one way: workers → stages → hexgen_celery, and everything → its core."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ("hexgen_celery", "stages", "workers", "tests")

# What the modules below a path may import of ours; the longest path that holds a module counts.
ALLOWED: dict[str, tuple[str, ...]] = {
    "hexgen_celery": ("hexgen_celery",),
    "hexgen_celery/core": ("hexgen_celery.core",),
    "hexgen_celery/workloads": (
        "hexgen_celery.workloads",
        "hexgen_celery.core",
        "hexgen_celery.errors",
    ),
    "hexgen_celery/simulator": (
        "hexgen_celery.simulator",
        "hexgen_celery.core",
        "hexgen_celery.errors",
        "hexgen_celery.parallel",
        "hexgen_celery.workloads",
    ),
    "hexgen_celery/tuning": (
        "hexgen_celery.tuning",
        "hexgen_celery.simulator",
        "hexgen_celery.core",
        "hexgen_celery.errors",
        "hexgen_celery.parallel",
        "hexgen_celery.workloads",
    ),
    "stages": ("stages", "hexgen_celery"),
    "workers": ("workers", "stages", "hexgen_celery"),
}

# Packages that decide and compute: they reach no server, so that they run in any clock.
PURE = ("core", "workloads", "simulator", "tuning", "reports", "workflows")
SERVERS = ("aiohttp", "celery", "flower", "kombu", "redis", "sqlite3")


def modules(*below: str) -> list[Path]:
    """The modules of ours below some paths."""
    return sorted(path for place in below for path in (ROOT / place).rglob("*.py"))


def imported(module: Path) -> Iterator[str]:
    """Dotted names that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            yield node.module or ""


def within(name: str, packages: tuple[str, ...]) -> bool:
    """Whether a dotted name is one of `packages` or inside one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def allowed(module: Path) -> tuple[str, ...]:
    """What a module may import of ours."""
    place = module.relative_to(ROOT)
    holders = [path for path in ALLOWED if place.is_relative_to(path)]
    return ALLOWED[max(holders, key=len)]


@pytest.mark.parametrize("place", sorted(ALLOWED))
def test_dependencies_point_one_way(place: str) -> None:
    found = modules(place)
    assert found, f"nothing below {place}"
    wrong = [
        f"{module.relative_to(ROOT)} imports {name}"
        for module in found
        for name in imported(module)
        if within(name, OURS) and not within(name, allowed(module))
    ]
    assert wrong == []


@pytest.mark.parametrize("package", PURE)
def test_what_decides_reaches_no_server(package: str) -> None:
    wrong = [
        f"{module.relative_to(ROOT)} imports {name}"
        for module in modules(f"hexgen_celery/{package}")
        for name in imported(module)
        if within(name, SERVERS)
    ]
    assert wrong == []


def test_only_the_command_line_prints() -> None:
    printing = [
        f"{module.relative_to(ROOT)}:{node.lineno}"
        for module in modules("hexgen_celery", "stages", "workers")
        if "cli" not in module.relative_to(ROOT).parts
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert printing == []


def test_no_module_grows_beyond_five_hundred_lines() -> None:
    lengths = {
        str(module.relative_to(ROOT)): len(module.read_text(encoding="utf-8").splitlines())
        for module in modules("hexgen_celery", "stages", "workers", "tests")
    }
    assert {name: count for name, count in lengths.items() if count > 500} == {}
