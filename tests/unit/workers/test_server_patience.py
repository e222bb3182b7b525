"""How long a server may be silent while requests run there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hexgen_celery.llm.activity import Activity
from hexgen_celery.profiles_io import load_profile
from workers.patience import MARGIN, patience_seconds

PROFILE = load_profile("a100-80g-x4-llama-3.1-70b")


class _Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_quick_server_has_what_is_configured() -> None:
    assert patience_seconds(1000.0, PROFILE, 8192) == 1000.0


@pytest.mark.parametrize("max_model_len", [None, 4096, 131_072])
def test_the_longest_prompt_is_waited_for_with_a_margin(max_model_len: int | None) -> None:
    slow = replace(PROFILE, prefill_tokens_per_second=10.0, prefill_base=1.0)
    longest = max_model_len or slow.max_model_len
    found = patience_seconds(60.0, slow, max_model_len)
    assert found > MARGIN * slow.prefill_seconds(longest) > 60.0


def test_silence_begins_with_the_oldest_request_or_after_the_last_token_of_any() -> None:
    clock = _Clock()
    activity = Activity(clock)
    clock.now = 100.0
    assert activity.silent_seconds == 0.0
    with activity.awaiting():
        clock.now = 130.0
        with activity.awaiting():
            clock.now = 150.0
            assert activity.silent_seconds == 50.0
            activity.heard()
            clock.now = 151.0
            assert activity.silent_seconds == 1.0
    assert activity.silent_seconds == 0.0
    assert activity.heard_at == 150.0
