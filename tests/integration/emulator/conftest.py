"""Servers shared by the tests of this area."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.emulator.running_server import Pace, RunningServer, run_emulated


@pytest.fixture
def instant() -> Iterator[RunningServer]:
    """An emulated instance that answers at once."""
    with run_emulated(Pace()) as server:
        yield server
