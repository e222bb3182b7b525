"""Places where a process can be made to die, for tests of what survives it.

`HEXGEN_FAULTS="after-claim=0.01,before-ack=0.02"` kills the process with SIGKILL at these points
with these probabilities; `HEXGEN_FAULT_SEED` makes the choice repeatable. Without the variable a
point costs one comparison. The points:

- `after-claim`: a message is claimed and leased, nobody has seen it yet.
- `after-transition`: a workflow has moved on, what became ready is in the outbox, nothing is sent.
- `before-send`: a message is routed and about to be published.
- `before-ack`: a task's work is done, its message is not acknowledged yet.
- `after-record`: questions are in the store, their entries are still in the stream.
"""

from __future__ import annotations

import os
import random
import signal
from typing import Literal

VARIABLE = "HEXGEN_FAULTS"
SEED_VARIABLE = "HEXGEN_FAULT_SEED"

FaultPoint = Literal["after-claim", "after-transition", "before-send", "before-ack", "after-record"]


def _probabilities(text: str) -> dict[str, float]:
    pairs = (item.split("=", 1) for item in text.split(",") if item)
    return {name.strip(): float(probability) for name, probability in pairs}


_faults = _probabilities(os.environ.get(VARIABLE, ""))
_random = random.Random(f"{os.environ.get(SEED_VARIABLE, '')}/{os.getpid()}")


def reach(point: FaultPoint) -> None:
    """Die here, if that was asked for and it is this time's turn."""
    if _faults and _random.random() < _faults.get(point, 0.0):
        os.kill(os.getpid(), signal.SIGKILL)
