"""Endpoints as Prometheus' service discovery wants them (http_sd and file_sd). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hexgen_celery.processes import ProcessRecord


def scrape_targets(processes: Iterable[ProcessRecord]) -> list[dict[str, Any]]:
    """One group per process with an endpoint: its address, and labels `kind` and `worker`."""
    return [
        {"targets": [each.endpoint], "labels": {"kind": each.kind, "worker": each.worker}}
        for each in processes
        if each.endpoint
    ]
