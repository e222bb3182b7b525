"""The file of results, build/bench.json: what was measured, when and on which machine."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.rows import Row

PATH = Path("build/bench.json")


def machine() -> dict[str, Any]:
    """What a reader must know about the machine to compare numbers."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(_memory_bytes() / 2**30, 1),
        "processor": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def read(path: Path = PATH) -> list[Row]:
    """Rows measured before, by name."""
    if not path.is_file():
        return []
    return [dict(row) for row in json.loads(path.read_text(encoding="utf-8"))]


def record(rows: list[Row], path: Path = PATH) -> None:
    """Put `rows` in place of those with the same names; other rows stay."""
    stamp = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    merged = {row["name"]: row for row in read(path)}
    merged |= {row["name"]: row | stamp for row in rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = [merged[name] for name in sorted(merged)]
    path.write_text(json.dumps(ordered, indent=2), encoding="utf-8")
