"""Answers of an sql worker to the question which databases it can read (`hexgen doctor` asks)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from celery.worker.control import Panel

from hexgen_celery.sql.databases import DatabaseRegistry
from hexgen_celery.sql.file_sight import SIGHT, problem_with


def tell_about_databases(registry: DatabaseRegistry) -> None:
    """Answer the remote-control command from now on: database name → problem, or ""."""

    def hexgen_databases(_state: Any) -> dict[str, str]:
        return {
            name: problem_with(Path(registry.entry(name).file.path)) for name in registry.names()
        }

    Panel.register(hexgen_databases, name=SIGHT, type="inspect")
