"""The pages on policies and workflows of one's own, performed as a reader would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hexgen_celery.cli.local_cluster import stop_running
from hexgen_celery.cluster import read_cluster
from tests.integration.demo.page_blocks import perform_page

pytestmark = pytest.mark.integration


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    stop_running(tmp_path / ".hexgen")


def test_a_policy_is_written_tested_simulated_and_used_live(here: Path) -> None:
    shown = perform_page("docs/writing-a-policy.md", here)
    assert "4 passed" in shown
    assert "4 of 4 answered" in shown
    assert "alpha + latest-start at 6 questions/s" in shown
    assert "reserve + latest-start at 6 questions/s" in shown
    assert "reserve + short-first at 6 questions/s" in shown
    assert "policy=reserve" in shown
    assert "laxity=" in shown
    assert '{"room": 4}' in shown
    assert read_cluster(here / ".hexgen") is None


def test_a_workflow_is_written_tested_and_asked(here: Path) -> None:
    shown = perform_page("docs/writing-a-workflow.md", here)
    assert "3 passed" in shown
    assert "Oslo has 34 customers." in shown
    assert "deadline met" in shown
    assert read_cluster(here / ".hexgen") is None
