"""README's tour, run as a reader would: its files written, its commands executed in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hexgen_celery.cli.local_cluster import stop_running
from hexgen_celery.cluster import read_cluster
from tests.integration.demo.page_blocks import blocks_of, perform_page

pytestmark = pytest.mark.integration
README = "README.md"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    stop_running(tmp_path / ".hexgen")


def test_the_tour_works_as_written(here: Path) -> None:
    shown = perform_page(README, here)
    assert "deadline met" in shown
    assert "2 of 2 answered" in shown
    assert "candidate_generation" in shown
    assert "✗" not in shown, "hexgen doctor found something wrong"
    assert read_cluster(here / ".hexgen") is None


def test_the_tour_covers_every_interface() -> None:
    text = "".join(block.text for block in blocks_of(README))
    for part in ("hexgen up", "hexgen ask", "hexgen batch", "hexgen flower", "hexgen trace"):
        assert part in text
    assert "send_task(" in text
    assert "Client()" in text
