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


def read(path: Path = PATH) -> dict[str, Any]:
    """Areas measured before, by name."""
    if not path.is_file():
        return {}
    areas = json.loads(path.read_text(encoding="utf-8")).get("areas", {})
    return dict(areas)


def record(area: str, rows: list[Row], problems: list[str], path: Path = PATH) -> None:
    """Put the rows of `area` in place of those with the same names; other rows stay."""
    areas = read(path)
    names = {row["name"] for row in rows}
    kept = [row for row in areas.get(area, {}).get("rows", []) if row["name"] not in names]
    stamp = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    areas[area] = {"rows": kept + [row | stamp for row in rows], "problems": problems}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"areas": areas}, indent=2, sort_keys=True), encoding="utf-8")
