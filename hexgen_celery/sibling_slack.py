"""How long the parallel requests of one question are expected to run, as placed by this router.

What other processes placed stands in the question's own record (`siblings_until` of its entries);
this bridges the moment until a placement is confirmed there.
"""

from __future__ import annotations

from collections import OrderedDict

QUESTIONS = 4096


class SiblingSlack:
    """Expected ends by (question, stage), the latest `QUESTIONS` of them. Not thread-safe.

    Requests of one stage often become ready together; they are then placed by one process, and
    confirmed together only when all are.
    """

    def __init__(self) -> None:
        self._ends: OrderedDict[tuple[str, str], dict[str, float]] = OrderedDict()

    def slack(self, workflow_id: str, stage: str, node_id: str, now: float) -> float:
        """Seconds until the slowest sibling of `node_id` is expected to end; 0 for none."""
        ends = self._ends.get((workflow_id, stage), {})
        others = (end for name, end in ends.items() if name != node_id)
        return max(0.0, max(others, default=now) - now)

    def placed(self, workflow_id: str, stage: str, node_id: str, end: float) -> None:
        """A request is expected to end at `end` (Unix seconds)."""
        key = (workflow_id, stage)
        self._ends.setdefault(key, {})[node_id] = end
        self._ends.move_to_end(key)
        if len(self._ends) > QUESTIONS:
            self._ends.popitem(last=False)
