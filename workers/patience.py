"""How long a server may be silent while requests run there before it is taken for wedged."""

from __future__ import annotations

import math

from hexgen_celery.core.profiles import Profile

# A profile fits within a quarter, and a server may be slower than it was when it was measured.
MARGIN = 3.0


def patience_seconds(least: float, profile: Profile, max_model_len: int | None) -> float:
    """`least`, or longer where the longest prompt honestly takes longer before its first token.

    With chunked prefill every other request either gets tokens meanwhile or waits behind this one,
    so that no healthy server is silent for longer.
    """
    tokens = max_model_len or profile.max_model_len
    steps = math.ceil(tokens / profile.max_batched_tokens)
    step = max(profile.prefill_base, profile.decode_step_seconds(1, tokens))
    return max(least, MARGIN * (profile.prefill_seconds(tokens) + steps * step))
