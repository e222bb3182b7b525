"""What happened, in order: per question a list, for the deployment one capped stream.

Scripts write both in the step that makes it happen. Every event has `t` (Unix seconds) and
`event`; the stream's also have `workflow`. Events: started, ready, sent, claimed, first_token,
done, failed, retried, dropped, finished.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import redis

from hexgen_celery.keys import Keys

if TYPE_CHECKING:
    from hexgen_celery.workflows.definition import Json

FIELD = "e"
OLDEST = "0-0"


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of the deployment with its place in the stream."""

    id: str
    event: Json


def traceable(facts: Mapping[str, Any]) -> Json:
    """Those of `facts` that an event can hold: texts, booleans and finite numbers.

    Anything else would make a script fail half-way, which Redis does not undo.
    """
    return {name: value for name, value in facts.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


class TraceReader:
    """Reads what the scripts wrote."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def of(self, workflow_id: str) -> list[Json]:
        """The events of one question, oldest first; empty when it is not known (any more)."""
        entries = self._client.lrange(self._keys.trace(workflow_id), 0, -1)
        return [json.loads(entry) for entry in cast("list[str]", entries)]

    def after(self, last_id: str = OLDEST, limit: int = 1000) -> list[StreamEvent]:
        """Up to `limit` events of the deployment that came after `last_id`, oldest first."""
        entries = self._client.xrange(self._keys.events, f"({last_id}", "+", limit)
        rows = cast("list[tuple[str, dict[str, str]]]", entries)
        return [StreamEvent(entry_id, json.loads(values[FIELD])) for entry_id, values in rows]
