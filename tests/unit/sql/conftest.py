"""What several tests of SQL checks share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.sql.school_schema import School


@pytest.fixture
def school(tmp_path: Path) -> Iterator[School]:
    opened = School(tmp_path / "school.sqlite")
    yield opened
    opened.connection.close()
