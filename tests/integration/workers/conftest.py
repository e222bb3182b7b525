"""The LLM server that the workers of a test module feed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.workers.fake_llm import FakeLlm


@pytest.fixture(scope="module")
def llm() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server
